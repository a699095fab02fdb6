//! Any bytes as a frame of a kernel's socket, and what they come to.

#![no_main]

use cellgate::answer::render;
use cellgate::jupyter::{Event, events_of_frame};
use cellgate::nbformat::Outputs;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut outputs = Outputs::default();
    for event in events_of_frame(bytes) {
        if let Event::Output { message_type, content } = event {
            outputs.apply(&message_type, &content);
        }
    }
    render(&outputs.to_json());
});
