//! A digest or MAC whose message comes in pieces. Its state is in the kernel, behind an operation socket.

use std::io::{IoSlice, IoSliceMut};

use gantry_core::driver::DigestStream;
use gantry_core::{Fault, Operation, Process};

use crate::fault::fault;
use crate::sys::{Channel, ControlMessages};

pub(crate) struct HashStream {
    operation: Operation,
    tag_len: usize,
    /// `Err` if copying the socket failed, because `duplicate` cannot return an error.
    channel: Result<Channel, Fault>,
    /// The process that the state belongs to.
    process: Process,
}

impl HashStream {
    pub(crate) fn new(operation: Operation, tag_len: usize, channel: Channel) -> Self {
        Self { operation, tag_len, channel: Ok(channel), process: Process::current() }
    }

    fn channel(&self) -> Result<&Channel, Fault> {
        if !self.process.is_current() {
            return Err(Fault::failed("AF_ALG: the state of this stream belongs to the parent process"));
        }
        self.channel.as_ref().map_err(Clone::clone)
    }
}

impl DigestStream for HashStream {
    fn operation(&self) -> Operation {
        self.operation
    }

    fn update(&mut self, input: &[u8]) -> Result<(), Fault> {
        let channel = self.channel()?;
        if input.is_empty() {
            return Ok(());
        }
        channel.send(&ControlMessages::NONE, &[IoSlice::new(input)], true).map_err(|error| fault(&error))
    }

    fn finish(&mut self, output: &mut [u8]) -> Result<(), Fault> {
        if output.len() != self.tag_len {
            return Err(Fault::failed("the digest has a wrong length"));
        }
        self.channel()?.receive(&mut [IoSliceMut::new(output)]).map_err(|error| fault(&error))
    }

    fn duplicate(&self) -> Box<dyn DigestStream> {
        let channel = self.channel().and_then(|channel| channel.duplicate().map_err(|error| fault(&error)));
        Box::new(Self { channel, ..*self })
    }
}
