//! Runs the documented snippet on vectors: a line `secret,header,body,now` each, the first three in hex.

mod webhook;

use std::io::{stdin, BufRead};

fn main() {
    for line in stdin().lock().lines().map(|line| line.expect("a line of UTF-8")) {
        let fields: Vec<&str> = line.split(',').collect();
        let bytes = |i: usize| hex::decode(fields[i]).expect("hex");
        let text = |i: usize| String::from_utf8(bytes(i)).expect("UTF-8");
        let now = fields[3].parse().expect("seconds");
        println!("{}", webhook::verify(&text(0), &text(1), &bytes(2), now));
    }
}
