//! From a CSV file, its labels in the last column, to a model file: `cargo run --example fit -- train.csv model.safetensors`.

use std::error::Error;

use pegasos::{Classifier, Dense, Kernel};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(data), Some(model)) = (arguments.next(), arguments.next()) else {
        return Err("usage: fit TRAIN.csv MODEL".into());
    };
    let (mut values, mut labels) = (Vec::<f64>::new(), Vec::new());
    let text = std::fs::read_to_string(data)?;
    for line in text.lines() {
        let (features, label) = line.rsplit_once(',').ok_or("a line has no label")?;
        let cells: Result<Vec<f64>, _> =
            features.split(',').map(|cell| cell.trim().parse()).collect();
        values.extend(cells?);
        labels.push(label.trim());
    }
    let x = Dense::new(&values, labels.len(), values.len() / labels.len().max(1))?;
    let trained = Classifier::with_kernel(Kernel::rbf_for(&x.into())).fit(x, &labels)?;
    println!("training accuracy {:.1}%", 100.0 * trained.accuracy(x, &labels)?);
    trained.save(model)?;
    Ok(())
}
