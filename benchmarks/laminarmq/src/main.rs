//! A program that has laminarmq do what it does, so that seglog can be measured against it and tested on its files.
//!
//!   laminarmq-peer append STORAGE DIRECTORY VALUE_BYTES RECORDS REPEATS
//!       append as many records of one size and close the log; a JSON object per repeat
//!   laminarmq-peer read STORAGE DIRECTORY VALUE_BYTES RECORDS REPEATS
//!       the same, then open the log again and stream all of it; what the last repeat wrote stays there
//!   laminarmq-peer samples DIRECTORY
//!       write the small logs of tests/data/laminarmq
//!
//! STORAGE: dma or buffered (both glommio, which needs io_uring), random or seek (both tokio).
//! Segments are as large as laminarmq's 32-bit positions allow with ease, so that none rolls while it is measured.

use futures_lite::{stream, StreamExt};
use laminarmq::{
    common::{cache::NoOpCache, serde_compat::bincode::BinCode},
    storage::{
        commit_log::{
            segmented_log::{segment::Config as SegmentConfig, Config, MetaWithIdx, SegmentedLog},
            CommitLog, Record,
        },
        impls::{
            common::DiskBackedSegmentStorageProvider,
            glommio::storage::{
                buffered::{BufferedStorage, BufferedStorageProvider},
                dma::{DmaStorage, DmaStorageProvider},
            },
            tokio::storage::{
                std_random_read::{StdRandomReadFileStorage, StdRandomReadFileStorageProvider},
                std_seek_read::{StdSeekReadFileStorage, StdSeekReadFileStorageProvider},
            },
        },
        AsyncConsume, AsyncIndexedRead, AsyncTruncate,
    },
};
use std::{
    convert::Infallible,
    fs,
    path::Path,
    time::{Duration, Instant},
};

const MEASURED_SEGMENT_BYTES: u64 = 2_000_000_000;
const SAMPLE_SEGMENT_BYTES: u64 = 256;
const PAUSE: Duration = Duration::from_millis(50);
const KILLED_RECORDS: usize = 600;

fn config<Idx>(segment_bytes: u64, initial_index: Idx) -> Config<Idx, u64> {
    Config {
        segment_config: SegmentConfig {
            max_store_size: segment_bytes,
            max_store_overflow: segment_bytes / 2,
            max_index_size: MEASURED_SEGMENT_BYTES,
        },
        initial_index,
        num_index_cached_read_segments: None,
    }
}

/// Opens a log: its storage, how to come by that, what its metadata and its indices are, where it is.
macro_rules! open {
    ($storage:ty, $provider:expr, $meta:ty, $idx:ty, $place:expr, $config:expr) => {
        SegmentedLog::<$storage, $meta, crc32fast::Hasher, $idx, u64, BinCode, _, NoOpCache<usize, ()>>::new(
            $config,
            DiskBackedSegmentStorageProvider::<_, _, $idx>::with_storage_directory_path_and_provider($place, $provider)
                .unwrap(),
        )
        .await
        .unwrap()
    };
}

/// Appends one value, the way its own benchmark does, and gives the index it got.
macro_rules! append {
    ($log:expr, $meta:expr, $value:expr) => {
        $log.append(Record {
            metadata: MetaWithIdx { metadata: $meta, index: None },
            value: stream::once(Ok::<&[u8], Infallible>($value)),
        })
        .await
        .unwrap()
    };
}

struct Seconds {
    append: f64,
    close: f64,
    read: Option<f64>,
}

/// Measures one storage: append, close; if it is asked for: open, stream.
macro_rules! measure {
    ($storage:ty, $provider:expr, $place:expr, $value:expr, $records:expr, $read:expr) => {{
        let mut log = open!($storage, $provider, (), u32, $place, config(MEASURED_SEGMENT_BYTES, 0));
        let start = Instant::now();
        for _ in 0..$records {
            append!(log, (), $value);
        }
        let append = start.elapsed().as_secs_f64();
        log.close().await.unwrap();
        let mut seconds = Seconds { append, close: start.elapsed().as_secs_f64() - append, read: None };
        if $read {
            let log = open!($storage, $provider, (), u32, $place, config(MEASURED_SEGMENT_BYTES, 0));
            let start = Instant::now();
            let count = log.stream_unbounded().count().await;
            seconds.read = Some(start.elapsed().as_secs_f64());
            log.close().await.unwrap();
            assert_eq!(count, $records); // its stream leaves out what it cannot read
        }
        seconds
    }};
}

fn on_glommio<T: Send + 'static>(work: impl std::future::Future<Output = T>) -> T {
    glommio::LocalExecutorBuilder::default().make().unwrap().run(work)
}

/// The faster of the two runtimes of its own benchmark.
fn on_tokio<T>(work: impl std::future::Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .build()
        .unwrap()
        .block_on(work)
}

fn measure(storage: &str, place: &Path, value: &[u8], records: usize, read: bool) -> Seconds {
    match storage {
        "dma" => on_glommio(async { measure!(DmaStorage, DmaStorageProvider, place, value, records, read) }),
        "buffered" => {
            on_glommio(async { measure!(BufferedStorage, BufferedStorageProvider, place, value, records, read) })
        }
        "random" => on_tokio(async {
            measure!(StdRandomReadFileStorage, StdRandomReadFileStorageProvider, place, value, records, read)
        }),
        "seek" => on_tokio(async {
            measure!(StdSeekReadFileStorage, StdSeekReadFileStorageProvider, place, value, records, read)
        }),
        _ => panic!("the storages are dma, buffered, random, seek"),
    }
}

fn measure_all(storage: &str, place: &Path, value_bytes: usize, records: usize, repeats: usize, read: bool) {
    let value = vec![b'v'; value_bytes];
    let rates = |what: &str, seconds: f64| {
        let (each, bytes) = (records as f64 / seconds, (records * value_bytes) as f64 / seconds);
        format!(
            ", \"{what}_seconds\": {seconds}, \"{what}_records_per_second\": {each:.0}, \
             \"{what}_bytes_per_second\": {bytes:.0}"
        )
    };
    for _ in 0..repeats {
        let _ = fs::remove_dir_all(place);
        let seconds = measure(storage, place, &value, records, read);
        println!(
            "{{\"storage\": \"{storage}\", \"value_bytes\": {value_bytes}, \"records\": {records}, \
             \"close_seconds\": {}{}{}}}",
            seconds.close,
            rates("append", seconds.append),
            seconds.read.map_or(String::new(), |read| rates("read", read)),
        );
    }
}

/// Value number `n` of a sample: lengths from 0 to 60.
fn value(n: u64) -> Vec<u8> {
    (0..n * 7 % 61).map(|i| ((n * 31 + i * 17) % 256) as u8).collect()
}

/// What laminarmq was given and the index it answered with: a line for each record, `index metadata value` in hex.
#[derive(Default)]
struct Told(Vec<(u64, Vec<u8>, Vec<u8>)>);

impl Told {
    /// Forgets what a truncate or an expiry takes away.
    fn keep(&mut self, range: std::ops::Range<u64>) {
        self.0.retain(|(index, ..)| range.contains(index));
    }

    fn write(&self, place: &Path) {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let lines = self.0.iter().map(|(index, meta, value)| format!("{index} x{} x{}\n", hex(meta), hex(value)));
        fs::write(place.with_extension("txt"), lines.collect::<String>()).unwrap();
    }
}

macro_rules! open_sample {
    ($storage:ty, $provider:expr, $meta:ty, $idx:ty, $place:expr, $initial:expr) => {
        open!($storage, $provider, $meta, $idx, $place, config(SAMPLE_SEGMENT_BYTES, $initial))
    };
    ($place:expr, $initial:expr) => {
        open_sample!(StdRandomReadFileStorage, StdRandomReadFileStorageProvider, (), u32, $place, $initial)
    };
}

/// Appends `value(n)` for every n of a range and notes what index it got.
macro_rules! fill {
    ($log:expr, $told:expr, $range:expr) => {
        for n in $range {
            let index = append!($log, (), &value(n));
            $told.0.push((index as u64, Vec::new(), value(n)));
        }
    };
}

async fn write_plain(place: &Path) -> Told {
    let (mut log, mut told) = (open_sample!(place, 0), Told::default());
    fill!(log, told, 0..30);
    log.close().await.unwrap();
    told
}

async fn write_empty(place: &Path) -> Told {
    open_sample!(place, 7).close().await.unwrap();
    Told::default()
}

/// Indices of 64 bits that begin at 5,000,000,000, and metadata: text, which serde's bincode gives a length of 8 bytes.
async fn write_metadata(place: &Path) -> Told {
    type Storage = StdRandomReadFileStorage;
    let mut log = open_sample!(Storage, StdRandomReadFileStorageProvider, String, u64, place, 5_000_000_000);
    let mut told = Told::default();
    for n in 0..12 {
        let metadata = if n % 3 == 0 { String::new() } else { format!("name-{n}") };
        let index = append!(log, metadata.clone(), &value(n));
        told.0.push((index, bincode::serialize(&metadata).unwrap(), value(n)));
    }
    log.close().await.unwrap();
    told
}

/// Cut within an earlier segment, then appended to.
async fn write_truncated(place: &Path) -> Told {
    let (mut log, mut told) = (open_sample!(place, 0), Told::default());
    fill!(log, told, 0..30);
    log.truncate(&10).await.unwrap();
    told.keep(0..10);
    fill!(log, told, 30..36);
    log.close().await.unwrap();
    told
}

/// Cut to an empty first segment: laminarmq then writes that one's base marker a second time.
async fn write_cut_at_base(place: &Path) -> Told {
    let (mut log, mut told) = (open_sample!(place, 100), Told::default());
    fill!(log, told, 0..4);
    log.truncate(&100).await.unwrap();
    told.keep(0..100);
    fill!(log, told, 10..14);
    log.close().await.unwrap();
    told
}

/// The same, opened again and gone on with: laminarmq takes the second marker for a record and leaves an index out.
async fn write_cut_at_base_reopened(place: &Path) -> Told {
    let mut told = write_cut_at_base(place).await;
    let mut log = open_sample!(place, 100);
    fill!(log, told, 20..24);
    log.close().await.unwrap();
    told
}

/// The same without opening again: it does so when it rolls as well.
async fn write_cut_at_base_rolled(place: &Path) -> Told {
    let (mut log, mut told) = (open_sample!(place, 0), Told::default());
    fill!(log, told, 0..4);
    log.truncate(&0).await.unwrap();
    told.keep(0..0);
    fill!(log, told, 10..24);
    log.close().await.unwrap();
    told
}

/// The oldest segments gone.
async fn write_expired(place: &Path) -> Told {
    let (mut log, mut told) = (open_sample!(place, 0), Told::default());
    fill!(log, told, 0..20);
    std::thread::sleep(PAUSE);
    fill!(log, told, 20..30);
    assert!(log.remove_expired(PAUSE / 2).await.unwrap() > 0);
    assert!(log.lowest_index() > 0);
    told.keep(log.lowest_index() as u64..u64::MAX);
    log.close().await.unwrap();
    told
}

/// Killed before it was closed: what stood in the two files' buffers of 8 KiB is lost. Value n is the byte n, repeated.
async fn write_killed(place: &Path, value_bytes: usize) {
    let config = config(MEASURED_SEGMENT_BYTES, 0);
    let mut log = open!(StdRandomReadFileStorage, StdRandomReadFileStorageProvider, (), u32, place, config);
    for n in 0..KILLED_RECORDS {
        append!(log, (), &vec![(n % 256) as u8; value_bytes]);
    }
    std::thread::sleep(PAUSE); // what left the buffers is written on another thread
    std::mem::forget(log);
}

/// Killed, opened again and gone on with, which alone is told: bytes stay in the store that no index entry claims.
async fn write_killed_reopened(place: &Path) -> Told {
    write_killed(place, 20).await;
    let config = config(MEASURED_SEGMENT_BYTES, 0);
    let mut log = open!(StdRandomReadFileStorage, StdRandomReadFileStorageProvider, (), u32, place, config);
    let mut told = Told::default();
    fill!(log, told, 0..5);
    log.close().await.unwrap();
    told
}

async fn write_buffered(place: &Path) -> Told {
    let mut log = open_sample!(BufferedStorage, BufferedStorageProvider, (), u32, place, 0);
    let mut told = Told::default();
    fill!(log, told, 0..20);
    log.close().await.unwrap();
    told
}

async fn write_dma(place: &Path) -> Told {
    let mut log = open_sample!(DmaStorage, DmaStorageProvider, (), u32, place, 0);
    let mut told = Told::default();
    fill!(log, told, 0..20);
    log.close().await.unwrap();
    told
}

/// Writes a sample into a directory of its name and what was told of it beside that.
macro_rules! sample {
    ($directory:expr, $name:expr, $write:ident) => {{
        let place = $directory.join($name);
        $write(&place).await.write(&place);
    }};
}

fn write_samples(directory: &Path) {
    on_tokio(async {
        sample!(directory, "plain", write_plain);
        sample!(directory, "empty", write_empty);
        sample!(directory, "metadata", write_metadata);
        sample!(directory, "truncated", write_truncated);
        sample!(directory, "cut-at-base", write_cut_at_base);
        sample!(directory, "cut-at-base-reopened", write_cut_at_base_reopened);
        sample!(directory, "cut-at-base-rolled", write_cut_at_base_rolled);
        sample!(directory, "expired", write_expired);
        write_killed(&directory.join("killed-store-ahead"), 20).await;
        write_killed(&directory.join("killed-index-ahead"), 0).await;
        sample!(directory, "killed-reopened", write_killed_reopened);
    });
    let directory = directory.to_path_buf();
    on_glommio(async move {
        sample!(directory, "buffered", write_buffered);
        sample!(directory, "dma", write_dma);
    });
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [what @ ("append" | "read"), storage, place, value_bytes, records, repeats] => {
            let [value_bytes, records, repeats] =
                [value_bytes, records, repeats].map(|text| text.parse::<usize>().expect("a number"));
            measure_all(storage, Path::new(place), value_bytes, records, repeats, *what == "read");
        }
        ["samples", directory] => write_samples(Path::new(directory)),
        _ => panic!("append|read STORAGE DIRECTORY VALUE_BYTES RECORDS REPEATS, or samples DIRECTORY"),
    }
}
