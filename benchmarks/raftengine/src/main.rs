//! A program that has tikv's raft-engine do what it does, so that seglog can be measured against it.
//!
//!   raftengine-peer append DIRECTORY VALUE_BYTES RECORDS BATCH SYNC
//!       append as many records of one size, BATCH in each write; SYNC: sync | written
//!   raftengine-peer get DIRECTORY VALUE_BYTES RECORDS
//!       get as many records at random from the log that "append" left there
//!
//! Either prints one JSON object: the seconds of all calls, and those of each call if a call has one record.
//! Records are entries of one raft group, added with `add_entries`; values are not compressed.

use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};
use raft_proto::eraftpb::Entry;
use std::time::Instant;

const GROUP: u64 = 1;
const SEED: u64 = 20_240_229;

struct Entries;

impl MessageExt for Entries {
    type Entry = Entry;

    fn index(entry: &Entry) -> u64 {
        entry.index
    }
}

fn opened(directory: &str) -> Engine {
    let config = Config {
        dir: directory.to_owned(),
        batch_compression_threshold: ReadableSize(0),
        purge_threshold: ReadableSize::gb(100),
        ..Default::default()
    };
    Engine::open(config).unwrap()
}

fn append(engine: &Engine, value: &[u8], records: usize, batch: usize, sync: bool) {
    let mut each = Vec::with_capacity(records / batch);
    let mut last = engine.last_index(GROUP).unwrap_or(0);
    let mut writes = LogBatch::with_capacity(1);
    let start = Instant::now();
    for _ in 0..records / batch {
        let begun = Instant::now();
        let entries: Vec<Entry> = (0..batch)
            .map(|_| {
                last += 1;
                let mut entry = Entry::default();
                entry.index = last;
                entry.term = 1;
                entry.data = value.to_vec().into();
                entry
            })
            .collect();
        writes.add_entries::<Entries>(GROUP, &entries).unwrap();
        engine.write(&mut writes, sync).unwrap();
        each.push(begun.elapsed().as_secs_f64());
    }
    print(start.elapsed().as_secs_f64(), if batch == 1 { &each } else { &[] });
}

fn get(engine: &Engine, size: usize, records: usize) {
    let (first, last) = (engine.first_index(GROUP).unwrap(), engine.last_index(GROUP).unwrap());
    let mut state = SEED;
    let indices: Vec<u64> = (0..records)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            first + (state >> 33) % (last - first + 1)
        })
        .collect();
    let start = Instant::now();
    for index in indices {
        let entry = engine.get_entry::<Entries>(GROUP, index).unwrap().unwrap();
        assert_eq!(entry.data.len(), size);
    }
    print(start.elapsed().as_secs_f64(), &[]);
}

fn print(seconds: f64, each: &[f64]) {
    let each: Vec<String> = each.iter().map(|one| format!("{one:.9}")).collect();
    println!("{{\"seconds\": {seconds}, \"each\": [{}]}}", each.join(", "));
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments[at].parse::<usize>().unwrap();
    let engine = opened(&arguments[2]);
    match arguments[1].as_str() {
        "append" => append(&engine, &vec![b'v'; number(3)], number(4), number(5), arguments[6] == "sync"),
        "get" => get(&engine, number(3), number(4)),
        other => panic!("{other}: append or get"),
    }
}
