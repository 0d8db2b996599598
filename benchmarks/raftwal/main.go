// A program that has hashicorp/raft-wal do what it does, so that seglog can be measured against it.
//
//	raftwal-peer append DIRECTORY VALUE_BYTES RECORDS BATCH
//	    append as many records of one size, BATCH in each call; every call is synced before it returns
//	raftwal-peer get DIRECTORY VALUE_BYTES RECORDS
//	    get as many records at random from the log that "append" left there
//
// Either prints one JSON object: the seconds of all calls, and those of each call if a call has one record.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

const seed = 20_240_229

type result struct {
	Seconds float64   `json:"seconds"`
	Each    []float64 `json:"each,omitempty"`
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "append DIRECTORY VALUE_BYTES RECORDS BATCH, or get DIRECTORY VALUE_BYTES RECORDS")
		os.Exit(2)
	}
	directory, size, records := os.Args[2], number(os.Args[3]), number(os.Args[4])
	check(os.MkdirAll(directory, 0o755))
	log, err := wal.Open(directory, wal.WithLogger(hclog.New(&hclog.LoggerOptions{Output: io.Discard})))
	check(err)
	var found result
	if os.Args[1] == "append" {
		found = appended(log, size, records, number(os.Args[5]))
	} else {
		found = got(log, size, records)
	}
	check(log.Close())
	check(json.NewEncoder(os.Stdout).Encode(found))
}

func appended(log *wal.WAL, size, records, batch int) result {
	value := make([]byte, size)
	logs := make([]*raft.Log, batch)
	each := make([]float64, 0, records/batch)
	last, err := log.LastIndex()
	check(err)
	start := time.Now()
	for done := 0; done < records; done += batch {
		begun := time.Now()
		for i := range logs {
			last++
			logs[i] = &raft.Log{Index: last, Term: 1, Data: value}
		}
		check(log.StoreLogs(logs))
		each = append(each, time.Since(begun).Seconds())
	}
	found := result{Seconds: time.Since(start).Seconds()}
	if batch == 1 {
		found.Each = each
	}
	return found
}

func got(log *wal.WAL, size, records int) result {
	first, err := log.FirstIndex()
	check(err)
	last, err := log.LastIndex()
	check(err)
	random := rand.New(rand.NewSource(seed))
	indices := make([]uint64, records)
	for i := range indices {
		indices[i] = first + uint64(random.Int63n(int64(last-first+1)))
	}
	var one raft.Log
	start := time.Now()
	for _, index := range indices {
		check(log.GetLog(index, &one))
		if len(one.Data) != size {
			check(fmt.Errorf("record %d has %d bytes", index, len(one.Data)))
		}
	}
	return result{Seconds: time.Since(start).Seconds()}
}
