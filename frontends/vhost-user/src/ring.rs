//! A queue of a guest, with the descriptors by which both sides wake each other.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use virtio_queue::{Queue, QueueT};
use vm_memory::GuestMemoryMmap;

/// Descriptors of the largest queue.
pub(crate) const MAX_QUEUE_SIZE: u16 = 1024;

pub(crate) struct Ring {
    pub(crate) queue: Queue,
    kick_fd: Option<File>,
    call_fd: Option<File>,
    error_fd: Option<File>,
    /// True if the front end has set the call descriptor, or said that there is none.
    is_call_configured: bool,
    /// The last setting of the front end; `None` if it never set one.
    enabled: Option<bool>,
    /// True while requests are taken from the ring.
    pub(crate) is_started: bool,
    /// The number of chains that were taken and not yet returned.
    pub(crate) in_flight: usize,
    /// `Some(true)` if the guest's driver uses event indices; `None` if the front end does not report the driver's features.
    pub(crate) event_idx: Option<bool>,
}

impl Ring {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            queue: Queue::new(MAX_QUEUE_SIZE).map_err(io::Error::other)?,
            kick_fd: None,
            call_fd: None,
            error_fd: None,
            is_call_configured: false,
            enabled: None,
            is_started: false,
            in_flight: 0,
            event_idx: None,
        })
    }

    /// Sets the descriptor by which the guest wakes the server. The ring must be [stopped](Self::stop).
    pub(crate) fn set_kick(&mut self, file: Option<File>) -> io::Result<()> {
        self.kick_fd = file.map(set_nonblocking).transpose()?;
        Ok(())
    }

    /// Sets the descriptor by which the server wakes the guest.
    pub(crate) fn set_call(&mut self, file: Option<File>) -> io::Result<()> {
        self.call_fd = file.map(set_nonblocking).transpose()?;
        self.is_call_configured = true;
        Ok(())
    }

    /// Sets the descriptor by which the front end learns that the ring is broken.
    pub(crate) fn set_error(&mut self, file: Option<File>) -> io::Result<()> {
        self.error_fd = file.map(set_nonblocking).transpose()?;
        Ok(())
    }

    pub(crate) fn set_enabled(&mut self, enabled: bool) {
        self.enabled = Some(enabled);
    }

    /// Starts the ring if its setup is complete. `starts_without_enable` is true for front ends that never enable a ring. The call
    /// descriptor must be known: otherwise a first request could be completed before the guest can be notified.
    pub(crate) fn start(&mut self, starts_without_enable: bool, epoll: &Epoll, token: u64) -> io::Result<()> {
        let Some(kick_fd) = &self.kick_fd else { return Ok(()) };
        if self.is_started
            || !self.is_call_configured
            || !self.enabled.unwrap_or(starts_without_enable)
            || self.queue.avail_ring() == 0
        {
            return Ok(());
        }
        self.queue.set_ready(true);
        // If the front end does not report the driver's features, the event index is written: a driver that does not use it ignores it.
        self.queue.set_event_idx(self.event_idx.unwrap_or(true));
        // Edge-triggered: each kick is an event, and the descriptor, which is shared with the front end, is never read.
        epoll.add(kick_fd.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, token))?;
        self.is_started = true;
        // The ring may have requests already.
        self.kick();
        Ok(())
    }

    pub(crate) fn stop(&mut self, epoll: &Epoll) {
        if std::mem::take(&mut self.is_started)
            && let Some(kick_fd) = &self.kick_fd
        {
            // `start` has added the descriptor.
            let _ = epoll.delete(kick_fd.as_fd());
        }
    }

    /// Forgets the descriptors, which the front end sets again before the ring restarts.
    pub(crate) fn clear_eventfds(&mut self) {
        (self.kick_fd, self.call_fd, self.is_call_configured) = (None, None, false);
        self.queue.set_ready(false);
    }

    /// Like [`clear_eventfds`](Self::clear_eventfds), and also forgets whether the ring was enabled: QEMU's cryptodev resets the
    /// device before it uses it, and enables nothing afterwards.
    pub(crate) fn reset(&mut self) {
        self.clear_eventfds();
        self.enabled = None;
    }

    /// Wakes the server as the guest would.
    pub(crate) fn kick(&self) {
        signal(self.kick_fd.as_ref());
    }

    /// Wakes the guest, if its driver asks for that.
    pub(crate) fn call(&mut self, memory: &GuestMemoryMmap) {
        // If the front end does not report the driver's features, the driver is always called.
        let should_notify = match self.event_idx {
            Some(true) => self.queue.needs_notification(memory).unwrap_or(true),
            _ => true,
        };
        if should_notify {
            signal(self.call_fd.as_ref());
        }
    }

    /// Tells the front end that the ring is broken.
    pub(crate) fn report_broken(&self) {
        signal(self.error_fd.as_ref());
    }
}

/// Signals a descriptor. A write to a full eventfd fails, but a full eventfd has been signalled already.
fn signal(file: Option<&File>) {
    if let Some(mut file) = file {
        let _ = file.write(&1_u64.to_ne_bytes());
    }
}

/// Makes a descriptor non-blocking, since the threads that write to it serve all guests.
fn set_nonblocking(file: File) -> io::Result<File> {
    let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
    fcntl(&file, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(file)
}
