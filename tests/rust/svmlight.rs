//! Rows from svmlight's text: read at once, in blocks and in batches, to the same; and what is wrong has its place.

use std::fmt::Write as _;
use std::io::{BufReader, Read};

use pegasos::svmlight::{Base, Batches, Decimal, Indices, Options, Parser, Rows, read};
use pegasos::{Error, ErrorKind};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

fn parsed<S: Decimal>(text: &[u8], cut: usize, options: Options) -> Result<Rows<S>, Error> {
    let mut parser = Parser::new(options)?;
    text.chunks(cut).try_for_each(|block| parser.push(block))?;
    parser.finish()
}

/// Rows of a few features, with what the format has to offer.
fn text(rows: usize, seed: u128) -> String {
    let mut random = Pcg64::new(seed, 0);
    let mut text = String::new();
    for _ in 0..rows {
        let label = ["+1", "-1", "2.5", "3"][random.next_u64() as usize % 4];
        text.push_str(label);
        let mut index = 0;
        for _ in 0..random.next_u64() % 9 {
            index += 1 + random.next_u64() % 1000;
            let bits = random.next_u64() >> 1;
            let value = match bits % 4 {
                0 => 1.0,
                1 => (bits % 100_000) as f64 / 1e5,
                2 => bits as f64 / -3e15,
                _ => Some(f64::from_bits(bits)).filter(|x| x.is_finite()).unwrap_or(0.0),
            };
            match bits % 2 {
                0 => write!(text, " {index}:{value}"),
                _ => write!(text, " {index}:{value:e}"),
            }
            .expect("a string takes everything");
        }
        text.push_str(["\n", "\r\n", " # 1:2 \n", "\n\n"][random.next_u64() as usize % 4]);
    }
    text
}

/// By the standard library, token by token.
fn naive(text: &str) -> (Vec<f64>, Vec<f64>, Vec<i32>, Vec<i32>) {
    let (mut labels, mut values, mut columns, mut indptr) = (vec![], vec![], vec![], vec![0]);
    for line in text.lines() {
        let mut tokens = line.split('#').next().unwrap_or("").split_whitespace();
        let Some(label) = tokens.next() else { continue };
        labels.push(label.parse().unwrap());
        for token in tokens {
            let (index, value) = token.split_once(':').unwrap();
            columns.push(index.parse::<i32>().unwrap() - 1);
            values.push(value.parse().unwrap());
        }
        indptr.push(values.len() as i32);
    }
    (labels, values, columns, indptr)
}

#[test]
fn rows_are_those_of_the_plain_way() {
    let text = text(3000, 1);
    let (labels, values, columns, indptr) = naive(&text);
    let indices = Indices::Narrow { indptr, columns };
    for cut in [1, 7, 1000, usize::MAX] {
        let rows = parsed::<f64>(text.as_bytes(), cut, Options::default()).unwrap();
        assert_eq!((&rows.labels, &rows.values), (&labels, &values));
        assert_eq!(rows.indices, indices);
    }
    assert_eq!(
        parsed::<f64>(text.as_bytes(), 100, Options::default()).unwrap().matrix().unwrap().n_rows(),
        labels.len()
    );
}

#[test]
fn an_f32_is_rounded_once() {
    let mut random = Pcg64::new(2, 0);
    let decimals: Vec<String> = (0..20_000)
        .map(|_| {
            // The middle between two, and what lies close to it.
            let low = f32::from_bits(random.next_u64() as u32 & 0x7eff_ffff);
            let middle = (f64::from(low) + f64::from(low.next_up())) / 2.0;
            match random.next_u64() % 4 {
                0 => format!("{middle}"),
                1 => format!("{}", middle.next_up()),
                2 => format!("{middle:.6}"),
                _ => format!("{low:e}"),
            }
        })
        .collect();
    let text: String = decimals.iter().map(|decimal| format!("1 1:{decimal}\n")).collect();
    let rows = parsed::<f32>(text.as_bytes(), 1 << 16, Options::default()).unwrap();
    let want: Vec<f32> = decimals.iter().map(|decimal| decimal.parse().unwrap()).collect();
    assert_eq!(rows.values, want);
}

#[cfg(feature = "rayon")]
#[test]
fn threads_and_cuts_show_in_no_bit() {
    let text = text(40_000, 3);
    assert!(text.len() > 1 << 20);
    let want = parsed::<f64>(text.as_bytes(), 1000, Options::default()).unwrap();
    for threads in [1, 2, 5] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        for cut in [200_001, usize::MAX] {
            let rows = pool.install(|| parsed::<f64>(text.as_bytes(), cut, Options::default()));
            assert_eq!(rows.unwrap(), want);
        }
    }
}

#[test]
fn batches_are_the_rows_in_their_order() {
    let text = text(2000, 4);
    let all = parsed::<f64>(text.as_bytes(), 1 << 16, Options::default()).unwrap();
    let options = Options { base: Base::One, n_features: Some(all.n_features) };
    for (size, room) in [(1, 64), (300, 1000), (300, 1 << 20), (5000, 77)] {
        let source = BufReader::with_capacity(room, text.as_bytes());
        let batches = Batches::<_, f64>::new(source, size, options).unwrap();
        let batches: Vec<Rows<f64>> = batches.collect::<Result<_, _>>().unwrap();
        assert_eq!(batches.len(), 2000_usize.div_ceil(size));
        assert_eq!(
            batches.iter().flat_map(|rows| rows.labels.clone()).collect::<Vec<_>>(),
            all.labels
        );
        assert_eq!(
            batches.iter().flat_map(|rows| rows.values.clone()).collect::<Vec<_>>(),
            all.values
        );
        assert!(
            batches.iter().all(|rows| rows.n_features == all.n_features && rows.matrix().is_ok())
        );
    }
}

#[test]
fn what_batches_need_is_asked_for() {
    let known = Options { base: Base::Zero, n_features: Some(3) };
    for (size, options, text) in [
        (0, known, "size must be 1 or more, got 0"),
        (
            1,
            Options { n_features: None, ..known },
            "n_features must be given for batches, got None",
        ),
        (
            1,
            Options { base: Base::Auto, ..known },
            "base must be Zero or One for batches, got Auto",
        ),
        (1, Options { n_features: Some(0), ..known }, "n_features must be at least 1"),
    ] {
        let error = Batches::<_, f32>::new(&b""[..], size, options).unwrap_err();
        assert!(error.to_string().starts_with(text), "{error}");
    }
    let mut batches = Batches::<_, f32>::new(&b"1 1:1\n1 x\n1 1:1\n"[..], 1, known).unwrap();
    // The block holds the fault; what comes of it is the row before it, one error, and then nothing.
    assert!(batches.next().is_some_and(|batch| batch.is_ok()));
    assert!(batches.next().is_some_and(|batch| batch.is_err()));
    assert!(batches.next().is_none());
}

#[test]
fn errors_have_a_place_and_files_a_name() {
    let error = parsed::<f32>(b"1 1:1\n\n-1 1:1 2:x\n", 5, Options::default()).unwrap_err();
    assert_eq!(error.to_string(), r#"line 3, column 10: the value "x" is not a number"#);
    assert!(matches!(error.kind(), ErrorKind::Text { path: None, line: 3, column: 10, .. }));
    let path = std::env::temp_dir().join(format!("pegasos-{}.svm", std::process::id()));
    let error = read::<f64>(&path, Options::default()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Io { path: at, .. } if *at == path), "{error}");
    std::fs::write(&path, "1 3:0.5\n2").unwrap();
    let rows = read::<f64>(&path, Options::default());
    std::fs::write(&path, "1 3:0.5\n2 3").unwrap();
    let error = read::<f64>(&path, Options::default()).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(rows.unwrap().labels, [1.0, 2.0]);
    let place = r#": line 2, column 3: found "3", want index:value"#;
    assert_eq!(error.to_string(), format!("{}{place}", path.display()));
}

#[test]
fn a_source_that_fails_says_so() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the wire was cut"))
        }
    }
    let options = Options { base: Base::One, n_features: Some(3) };
    let source = BufReader::new((&b"1 1:1\n"[..]).chain(Broken));
    let mut batches = Batches::<_, f32>::new(source, 10, options).unwrap();
    assert_eq!(batches.next().unwrap().unwrap().labels, [1.0]);
    let error = batches.next().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the source: the wire was cut");
}

#[test]
fn wide_indices_are_read_on_the_way() {
    let text = format!("1 1:1 7:2\n-1 {}:1 3:4\n", 1_u64 << 40);
    for cut in [1, usize::MAX] {
        let rows = parsed::<f32>(text.as_bytes(), cut, Options::default()).unwrap();
        let columns = vec![0, 6, 2, (1 << 40) - 1];
        assert_eq!(rows.indices, Indices::Wide { indptr: vec![0, 2, 4], columns });
        assert_eq!((rows.values.as_slice(), rows.n_features), (&[1.0, 2.0, 4.0, 1.0][..], 1 << 40));
        assert!(rows.matrix().is_ok());
    }
}

#[test]
fn any_bytes_are_rows_or_an_error() {
    let mut random = Pcg64::new(5, 0);
    let parts = [
        "1",
        "-",
        "+",
        ":",
        " ",
        "\n",
        "\r",
        "#",
        ".",
        "e",
        "0",
        "123456789",
        "qid:",
        "nan",
        "\0",
        "\u{b2}",
        "1:1 ",
        "\t",
    ];
    let mut read = 0;
    for _ in 0..20_000 {
        let n = random.next_u64() as usize % 12;
        let text: String =
            (0..n).map(|_| parts[random.next_u64() as usize % parts.len()]).collect();
        let whole = parsed::<f32>(text.as_bytes(), 1 << 20, Options::default());
        assert_eq!(whole, parsed::<f32>(text.as_bytes(), 2, Options::default()), "{text:?}");
        if let Ok(rows) = whole {
            read += 1;
            assert!(rows.values.iter().all(|x| x.is_finite()));
            assert_eq!(rows.matrix().is_ok(), !rows.labels.is_empty());
        }
    }
    assert!(read > 1000);
}

/// However a source is cut into blocks: all rows before what is wrong, and then what that is.
#[test]
fn rows_before_an_error_are_handed_out() {
    /// A source that breaks at its end.
    struct Breaks<'a>(&'a [u8]);
    impl std::io::Read for Breaks<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(out)? {
                0 => Err(std::io::Error::other("gone")),
                read => Ok(read),
            }
        }
    }
    let options = Options { base: Base::One, n_features: Some(9) };
    let rows = "1 1:1 2:2\n2 2:1\n3\n4 3:1 4:4\n";
    for (text, what) in [("5 1:1 2:x\n6 1:1\n", "line 5"), ("5 1:1 1:2\n", "line 5"), ("", "gone")]
    {
        let text = format!("{rows}{text}");
        for (capacity, size) in [1, 3, 16, 1000].into_iter().flat_map(|c| [1, 3, 9].map(|s| (c, s)))
        {
            let source = std::io::BufReader::with_capacity(capacity, Breaks(text.as_bytes()));
            let found: Vec<_> = Batches::<_, f64>::new(source, size, options).unwrap().collect();
            let (error, batches) = found.split_last().unwrap();
            let labels = batches.iter().flat_map(|batch| batch.as_ref().unwrap().labels.clone());
            assert_eq!(labels.collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0], "{capacity} {size}");
            assert!(batches.iter().all(|batch| batch.as_ref().unwrap().matrix().is_ok()));
            assert!(error.as_ref().unwrap_err().to_string().contains(what), "{error:?}");
        }
    }
}
