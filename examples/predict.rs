//! What a model file says of the rows of a CSV file: `cargo run --example predict -- model.safetensors rows.csv`.

use std::error::Error;

use pegasos::{Dense, Model};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(model), Some(rows)) = (arguments.next(), arguments.next()) else {
        return Err("usage: predict MODEL ROWS.csv".into());
    };
    let model = Model::load(model)?;
    let text = std::fs::read_to_string(rows)?;
    let values: Vec<f64> = text
        .lines()
        .flat_map(|line| line.split(','))
        .map(|cell| cell.trim().parse())
        .collect::<Result<_, _>>()?;
    let x = Dense::new(&values, values.len() / model.n_features(), model.n_features())?;
    for label in model.predict(x)? {
        println!("{label}");
    }
    Ok(())
}
