//! Model files that are broken, by chance or on purpose, and files that appear whole or not at all.

use pegasos::{ErrorKind, Model};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use safetensors::tensor::Dtype;
use serde_json::{Value, json};

use super::model::{Tensors, files, hexadecimal, opened, refused, sealed, sealed_text};

#[test]
fn every_prefix_is_refused() {
    for (name, bytes) in files() {
        for len in 0..bytes.len() {
            refused(name, &bytes[..len]);
        }
        refused(name, &[&bytes[..], b"\0"].concat());
    }
}

#[test]
fn flipped_bits_are_refused() {
    let mut random = Pcg64::new(11, 1);
    for (name, bytes) in files() {
        for _ in 0..2000 {
            let mut bytes = bytes.clone();
            let place = (random.next_u64() % bytes.len() as u64) as usize;
            bytes[place] ^= 1 << (random.next_u64() % 8);
            refused(name, &bytes);
        }
    }
}

#[test]
fn what_is_no_model_is_refused() {
    let header = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let huge = format!(
        "{{\"a\":{{\"dtype\":\"F64\",\"shape\":[{0},{0}],\"data_offsets\":[0,{0}]}}}}",
        u64::MAX >> 1
    );
    let deep = "[".repeat(100_000);
    let seal = |text: &str| sealed_text(text, &Tensors::new());
    for (name, bytes) in [
        ("nothing", Vec::new()),
        (
            "a pickle",
            b"\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93.".to_vec(),
        ),
        ("a declared header", u64::MAX.to_le_bytes().to_vec()),
        ("a larger declared header", [&(1u64 << 40).to_le_bytes()[..], &[b'{'; 100]].concat()),
        ("huge tensors", header(&huge)),
        ("a deep header", header(&deep)),
        ("a deep text", seal(&format!("{{\"format\": 5, \"checksums\": {{}}, \"x\": {deep}"))),
        ("a header that is no text", [&4u64.to_le_bytes()[..], &[0xff; 4]].concat()),
        ("no text", seal("{\"format\": 5")),
        ("only checksums", seal("{\"format\": 5, \"checksums\": {}")),
        ("a list", seal("[5, {")),
    ] {
        refused(name, &bytes);
    }
}

/// A header that takes more memory than its file may: refused before it is parsed.
#[test]
fn bombs_are_refused() {
    let many = (0..200_000)
        .map(|i| format!("\"{i}\":{{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}"));
    let text = format!("{{{}}}", many.collect::<Vec<_>>().join(","));
    let bytes = [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    assert!(refused("many tensors", &bytes).contains("MB of memory"));
    for part in ["{\"a\":0},", "[],", "0,", "\\u007b\\u007d,"] {
        let list = part.repeat(3 << 20).replace("\\u007b\\u007d", "{}");
        let text = format!("{{\"format\": 5, \"checksums\": {{}}, \"loss_curve\": [{list}0]");
        let said = refused(part, &sealed_text(&text, &Tensors::new()));
        assert!(said.contains("MB of memory"), "{part}: {said}");
    }
}

type Change = fn(&mut Value, &mut Tensors);

#[test]
fn files_that_lie_are_refused() {
    let changes: &[(&str, Change)] = &[
        ("an earlier format", |s, _| s["format"] = json!(3)),
        ("a later format", |s, _| s["format"] = json!(99)),
        ("a format that is none", |s, _| s["format"] = json!("5")),
        ("negative features", |s, _| s["n_features"] = json!(-1)),
        ("other features", |s, _| s["n_features"] = json!(4)),
        ("no features", |s, _| s["n_features"] = json!(0)),
        ("features that overflow", |s, _| {
            s["n_features"] = json!(u64::MAX);
            s["trainer"]["n_features"] = json!(u64::MAX);
            if let Some(problems) = s["trainer"].get_mut("problems") {
                problems[0]["n_features"] = json!(u64::MAX);
            }
        }),
        ("2^62 features", |s, _| {
            s["n_features"] = json!(1u64 << 62);
            s["trainer"]["n_features"] = json!(1u64 << 62);
            if let Some(problems) = s["trainer"].get_mut("problems") {
                problems[0]["n_features"] = json!(1u64 << 62);
            }
        }),
        ("no class", |s, _| s["classes"]["values"] = json!([])),
        ("two classes", |s, _| s["classes"]["values"] = json!([1, 2])),
        ("falling classes", |s, _| s["classes"]["values"] = json!([3, 2, 1])),
        ("equal classes", |s, _| s["classes"]["values"] = json!([1, 2, 2])),
        ("words among numbers", |s, _| s["classes"]["values"] = json!([1, 2, "three"])),
        ("classes of a foreign dtype", |s, _| s["classes"]["dtype"] = json!("complex128")),
        ("names of other features", |s, _| s["feature_names"] = json!(["a"])),
        ("names that are none", |s, _| s["feature_names"] = json!([1, 2, 3])),
        ("another trainer", |s, _| s["trainer"]["format"] = json!(99)),
        ("a trainer in halves", |s, _| s["trainer"]["dtype"] = json!("float16")),
        ("a trainer in single precision", |s, _| s["trainer"]["dtype"] = json!("float32")),
        ("a tensor that is asked for twice", |s, _| {
            let v = json!({ "tensor": "trainer.v" });
            let trainer = &mut s["trainer"];
            match trainer.get_mut("problems") {
                Some(problems) => problems[0]["b"] = v,
                None => trainer["norms"] = v,
            }
        }),
        ("a tensor more", |_, t| {
            t.insert("more".into(), (Dtype::F64, vec![1], vec![0; 8]));
        }),
        ("a tensor less", |_, t| {
            t.remove("trainer.v");
        }),
        ("NaN", |_, t| {
            let (.., data) = t.get_mut("trainer.v").unwrap();
            data[..8].copy_from_slice(&f64::NAN.to_le_bytes());
        }),
        ("infinity", |_, t| {
            let (.., data) = t.get_mut("trainer.v").unwrap();
            data[..8].copy_from_slice(&f64::INFINITY.to_le_bytes());
        }),
        ("integers for weights", |_, t| t.get_mut("trainer.v").unwrap().0 = Dtype::I64),
        ("a shorter tensor", |_, t| {
            let (_, shape, data) = t.get_mut("trainer.v").unwrap();
            data.truncate(data.len() - 8);
            *shape = vec![data.len() / 8];
        }),
        ("a step of another kind", |s, _| s["steps"] = json!([{ "class": "Popen", "name": "a" }])),
        ("a step without numbers", |s, _| {
            s["steps"] =
                json!([{ "class": "MaxAbsScaler", "scale": { "tensor": "none" }, "clip": false }]);
        }),
        ("a calibration without numbers", |s, _| {
            s["calibration"] = json!({ "map": { "method": "sigmoid", "parts": [] } });
        }),
        ("a calibration that is none", |s, _| s["calibration"] = json!(1)),
        ("a metric without numbers", |s, _| {
            s["extra"] = json!({ "metric": { "map": { "tensor": "none" } } });
        }),
        ("a scale that overflows", |s, _| {
            let scale = json!({ "float": "inf" });
            match s["trainer"].get_mut("problems") {
                Some(problems) => problems[0]["a"] = scale,
                None => s["trainer"]["a"] = scale,
            }
        }),
    ];
    let of_kernels: &[(&str, Change)] = &[
        ("2^32 classes", |s, _| s["trainer"]["classes"] = json!(1u64 << 32)),
        ("2^33 classes", |s, _| s["trainer"]["classes"] = json!(1u64 << 33)),
        ("2^64 - 1 classes", |s, _| s["trainer"]["classes"] = json!(u64::MAX)),
        ("a kernel that there is not", |s, _| s["trainer"]["params"]["kernel"] = json!("exec")),
        ("a width below 0", |s, _| s["trainer"]["params"]["gamma"] = json!(-1.0)),
    ];
    for (name, bytes) in files() {
        let (state, tensors) = opened(&bytes);
        assert!(Model::from_bytes(&sealed(state.clone(), &tensors)).is_ok(), "{name} as it was");
        let more = if name == "linear" { &[] } else { of_kernels };
        for (what, change) in changes.iter().chain(more) {
            let (mut state, mut tensors) = (state.clone(), tensors.clone());
            change(&mut state, &mut tensors);
            refused(&format!("{name}: {what}"), &sealed(state, &tensors));
        }
        for entry in ["class", "classes", "n_features", "params", "extra", "trainer", "format"] {
            let mut state = state.clone();
            state.as_object_mut().unwrap().remove(entry);
            refused(&format!("{name} without {entry}"), &sealed(state, &tensors));
        }
        for entry in state["trainer"].as_object().unwrap().keys() {
            let needed = [
                "format",
                "t",
                "problems",
                "n_features",
                "sparse",
                "classes",
                "v",
                "u",
                "values",
                "dtype",
            ];
            if needed.contains(&&entry[..]) {
                let mut state = state.clone();
                state["trainer"].as_object_mut().unwrap().remove(entry);
                refused(&format!("{name}: a trainer without {entry}"), &sealed(state, &tensors));
            }
        }
    }
}

/// Settings of a HashingVectorizer that make no rows.
#[test]
fn hashers_that_make_no_rows_are_refused() {
    let (_, bytes) = &files()[0];
    let (state, tensors) = opened(bytes);
    let with = |shortest: usize, from: usize, to: usize| {
        let mut state = state.clone();
        state["steps"] = json!([{
            "class": "HashingVectorizer", "n_features": state["n_features"], "analyzer": "word",
            "ngram_range": [from, to], "shortest": shortest, "lowercase": true, "stop_words": null,
            "alternate_sign": true, "binary": false, "norm": "l2", "single": false,
        }]);
        sealed(state, &tensors)
    };
    let model = Model::from_bytes(&with(1, 1, 2)).unwrap();
    assert_eq!(model.predict(&["a word", ""][..]).unwrap().len(), 2);
    for (shortest, from, to) in [(0, 1, 1), (1, 0, 1), (1, 2, 1)] {
        let said = refused("a hasher", &with(shortest, from, to));
        assert!(said.contains("HashingVectorizer must have"), "{said}");
    }
}

/// A folder that is gone at the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pegasos-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Several writers at once: always a whole file, none of them fails, and nothing is left.
#[test]
fn writers_side_by_side() {
    let folder = Folder::new("writers");
    let path = folder.0.join("model");
    let models: Vec<Model> =
        files().iter().map(|(_, bytes)| Model::from_bytes(bytes).unwrap()).collect();
    models[0].save(&path).unwrap();
    std::thread::scope(|scope| {
        for model in &models {
            scope.spawn(|| (0..100).for_each(|_| model.save(&path).unwrap()));
        }
        scope.spawn(|| (0..100).for_each(|_| drop(Model::load(&path).unwrap())));
    });
    assert_eq!(folder.names(), ["model"]);
}

#[test]
fn what_killed_writers_left_is_removed() {
    let folder = Folder::new("killed");
    let path = folder.0.join("model");
    let model = Model::from_bytes(&files()[0].1).unwrap();
    let digest = &hexadecimal(b"model")[..16];
    std::fs::write(folder.0.join(format!(".pegasos-{digest}-0123")), b"half").unwrap();
    std::fs::write(folder.0.join(".pegasos-another"), b"of somebody else").unwrap();
    model.save(&path).unwrap();
    let mut names = folder.names();
    names.sort();
    assert_eq!(names, [".pegasos-another", "model"]);
    // A folder can be no file; what was there is still there.
    let error = model.save(&folder.0).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Io { .. }), "{error}");
    let error = model.save(folder.0.join("none").join("model")).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Io { .. }), "{error}");
    let error = Model::load(folder.0.join("none")).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Io { .. }), "{error}");
    assert_eq!(Model::load(&path).unwrap().text(), model.text());
}

#[test]
#[cfg(unix)]
fn links_and_devices_stay() {
    let folder = Folder::new("links");
    let (real, link) = (folder.0.join("real"), folder.0.join("link"));
    let model = Model::from_bytes(&files()[0].1).unwrap();
    model.save(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    model.save(&link).unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    // One that leads to nothing yet, by way of another.
    let (first, second) = (folder.0.join("first"), folder.0.join("second"));
    std::os::unix::fs::symlink("second", &first).unwrap();
    std::os::unix::fs::symlink(folder.0.join("new"), &second).unwrap();
    model.save(&first).unwrap();
    assert!(first.is_symlink() && second.is_symlink() && !folder.0.join("new").is_symlink());
    assert_eq!(Model::load(folder.0.join("new")).unwrap().text(), model.text());
    model.save("/dev/null").unwrap();
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    assert!(matches!(Model::load("/dev/null").unwrap_err().kind(), ErrorKind::File { .. }));
}
