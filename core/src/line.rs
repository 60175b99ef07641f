//! A thread's line to a device: a queue there, and what is in it.

use std::convert::Infallible;
use std::sync::Arc;

use crate::driver::{Batch, Completions, DeviceQueue, DeviceSession};
use crate::guard::survived;
use crate::inbox::Inbox;
use crate::job::{InFlight, List, Loan};
use crate::{Clock, Fault, Request};

/// The only place that calls a [`DeviceQueue`].
pub(crate) struct Line {
    /// None once the device has lost the trust that a queue needs.
    queue: Option<Box<dyn DeviceQueue>>,
    flight: InFlight,
}

impl Line {
    pub(crate) fn new(queue: Box<dyn DeviceQueue>) -> Self {
        Self { queue: Some(queue), flight: InFlight::default() }
    }

    /// A line to nowhere.
    pub(crate) fn closed() -> Self {
        Self { queue: None, flight: InFlight::default() }
    }

    /// Whether the device still gets requests this way.
    pub(crate) fn is_open(&self) -> bool {
        self.queue.is_some()
    }

    /// Requests in the device.
    #[inline]
    pub(crate) fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Whether a request is in the device that is at home in this inbox.
    pub(crate) fn has_of(&self, home: &Inbox) -> bool {
        self.flight.has_of(home)
    }

    /// The request that has been in the device for longest, by its address, and the bytes of its data.
    pub(crate) fn oldest(&self) -> Option<(usize, usize)> {
        self.flight.oldest()
    }

    /// Offers requests to the device; those that it has no room for stay in the list. Those that it did right away go to
    /// `done`; whether that was all, and each [is done](crate::request::Body::is_done). An error is the end of this line.
    #[inline]
    pub(crate) fn submit(&mut self, offered: &mut List, done: &mut List) -> Result<bool, Fault> {
        let Some(queue) = &mut self.queue else { return Err(Fault::Lost) };
        let mut batch = Batch::new(offered);
        // What the queue was about is dropped with it, so nobody sees it half-done.
        if survived(|| queue.submit(&mut batch)).is_ok() {
            return Ok(batch.settle(&mut self.flight, done));
        }
        let mut back = List::new();
        batch.settle(&mut self.flight, &mut back);
        Err(self.panicked(back, done))
    }

    /// Takes what is ready. The number is that of the requests that came back.
    pub(crate) fn poll(&mut self, done: &mut List) -> Result<usize, Fault> {
        let Some(queue) = &mut self.queue else { return Ok(self.flight.collect(true, done)) };
        let mut completions = Completions::new();
        match survived(|| queue.poll(&mut completions)) {
            Ok(left) => {
                let before = self.flight.len();
                let in_front = self.flight.collect(false, done);
                // Completed out of order, or by way of another queue of the device.
                let elsewhere = completions.completed() > in_front || left != before - in_front;
                Ok(in_front + if elsewhere { self.flight.collect(true, done) } else { 0 })
            }
            Err(_) => Err(self.panicked(List::new(), done)),
        }
    }

    /// Takes everything back from the device, done or not, by dropping the queue. `false` if the device keeps something even so.
    pub(crate) fn take_back(&mut self, done: &mut List) -> bool {
        let queue = self.queue.take();
        let _ = survived(|| drop(queue));
        self.flight.collect(true, done);
        self.flight.is_empty()
    }

    /// The queue, when nothing is in it.
    pub(crate) fn into_queue(self) -> Option<Box<dyn DeviceQueue>> {
        if self.flight.is_empty() { self.queue } else { None }
    }

    pub(crate) fn arm(&mut self, waker: &std::task::Waker) -> bool {
        let mut arm = |queue: &mut Box<dyn DeviceQueue>| survived(|| queue.arm(waker)) == Ok(true);
        self.flight.is_empty() || self.queue.as_mut().is_some_and(&mut arm)
    }

    /// Runs requests of one session with nobody else around, and returns when each has a result. When nothing comes back any
    /// more after `patience`, in nanoseconds, the rest has a fault.
    pub(crate) fn run_to_end(
        queue: Box<dyn DeviceQueue>,
        session: &Arc<dyn DeviceSession>,
        clock: &dyn Clock,
        patience: u64,
        requests: &mut [Request<'_>],
    ) {
        let mut line = Line::new(queue);
        let home = Inbox::new();
        let Ok(loan) = Loan::of(requests, &home, |_, _| Ok::<_, Infallible>(None));
        loan.run(|mut list| {
            list.each(|handle| handle.send_to(session, None));
            let mut done = List::new();
            let end = clock.now().saturating_add(patience);
            while !list.is_empty() || line.in_flight() > 0 {
                let offered = list.len();
                let came = line.submit(&mut list, &mut done).and_then(|_| line.poll(&mut done));
                let nothing = came == Ok(0) && list.len() == offered;
                if came.is_err() || nothing && clock.now() > end {
                    line.take_back(&mut done);
                    list.each(|handle| handle.body.finish(Err(Fault::failed("no answer in time"))));
                    done.append(&mut list);
                } else if nothing {
                    clock.wait(Some(end.saturating_add(1)));
                }
            }
            done
        });
    }

    /// Takes back what the driver had in hand, besides what came `back` in the call. The fault is that of requests which it has
    /// not touched.
    #[cold]
    fn panicked(&mut self, mut back: List, done: &mut List) -> Fault {
        self.take_back(&mut back);
        back.each(|handle| {
            if handle.body.fault() == Some(&Fault::Lost) {
                handle.body.finish(Err(Fault::Panicked));
            }
        });
        done.append(&mut back);
        Fault::failed("the driver panicked")
    }
}
