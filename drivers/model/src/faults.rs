//! Faults on demand.

use std::collections::VecDeque;
use std::num::NonZero;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gantry_core::Fault;

use crate::random::Random;

/// A fault of one request or submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The request returns a fault.
    Error,
    /// One bit of the result is wrong.
    Wrong,
    /// The driver panics after it has written a wrong result.
    Panic,
    /// The request never completes.
    Stall,
    /// The request completes later, by ten times its work in the engine, so later requests may overtake it.
    Late,
    /// The device reports once that it is full, and takes nothing.
    Full,
}

/// Random faults. A chance of `n` means one in `n` requests, for `full` one in `n` submissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// Number of requests without random faults at the start.
    pub after: u64,
    /// See [`InjectedFault::Error`].
    pub errors: Option<NonZero<u32>>,
    /// See [`InjectedFault::Wrong`].
    pub wrong: Option<NonZero<u32>>,
    /// See [`InjectedFault::Panic`].
    pub panics: Option<NonZero<u32>>,
    /// See [`InjectedFault::Stall`].
    pub stalls: Option<NonZero<u32>>,
    /// See [`InjectedFault::Late`].
    pub late: Option<NonZero<u32>>,
    /// See [`InjectedFault::Full`].
    pub full: Option<NonZero<u32>>,
    /// Number of requests after which the device is gone.
    pub gone: Option<u64>,
}

impl FromStr for FaultPlan {
    type Err = String;

    /// Parses a plan such as `errors=1/100,wrong=1/1000,after=50`, with a key for each field.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut plan = FaultPlan::default();
        for field in text.split(',').map(str::trim).filter(|field| !field.is_empty()) {
            let chance = |value: &str| value.strip_prefix("1/")?.parse().ok().map(Some);
            let set = field.split_once('=').and_then(|(key, value)| {
                match key {
                    "after" => plan.after = value.parse().ok()?,
                    "gone" => plan.gone = Some(value.parse().ok()?),
                    "errors" => plan.errors = chance(value)?,
                    "wrong" => plan.wrong = chance(value)?,
                    "panics" => plan.panics = chance(value)?,
                    "stalls" => plan.stalls = chance(value)?,
                    "late" => plan.late = chance(value)?,
                    "full" => plan.full = chance(value)?,
                    _ => return None,
                }
                Some(())
            });
            set.ok_or_else(|| {
                format!("'{field}' is not a valid fault; errors, wrong, panics, stalls, late and full take 1/N, after and gone take N")
            })?;
        }
        Ok(plan)
    }
}

/// Controls the faults of a device. Clones control the same faults.
#[derive(Clone, Debug, Default)]
pub struct FaultInjector {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// False while `script` cannot cause faults, so that devices need no lock.
    may_fault: AtomicBool,
    gone: AtomicBool,
    script: Mutex<Script>,
}

#[derive(Debug, Default)]
struct Script {
    plan: FaultPlan,
    next: VecDeque<InjectedFault>,
    requests: u64,
    random: Random,
}

impl FaultInjector {
    /// Replaces the random faults from now on.
    pub fn set_plan(&self, plan: FaultPlan) {
        let mut script = self.script();
        *script = Script { plan, next: std::mem::take(&mut script.next), ..Script::default() };
        self.shared.may_fault.store(true, Ordering::Relaxed);
    }

    /// Injects a fault into the next `times` requests, after the faults that were injected before.
    pub fn inject(&self, fault: InjectedFault, times: usize) {
        self.script().next.extend(std::iter::repeat_n(fault, times));
        self.shared.may_fault.store(true, Ordering::Relaxed);
    }

    /// Sets whether the device is gone: every call then fails, as with a card that was removed.
    pub fn set_gone(&self, gone: bool) {
        self.shared.gone.store(gone, Ordering::Relaxed);
    }

    /// Returns true if the device is gone.
    pub fn is_gone(&self) -> bool {
        self.shared.gone.load(Ordering::Relaxed)
    }

    /// Returns true if the device reports that it is full at this submission.
    pub(crate) fn take_full_fault(&self) -> bool {
        if !self.shared.may_fault.load(Ordering::Relaxed) {
            return false;
        }
        let script = &mut *self.script();
        if script.next.front() == Some(&InjectedFault::Full) {
            script.next.pop_front();
            return true;
        }
        script.requests >= script.plan.after && script.random.one_in(script.plan.full)
    }

    /// Returns the fault of the next request, if any.
    pub(crate) fn next_fault(&self) -> Option<InjectedFault> {
        if !self.shared.may_fault.load(Ordering::Relaxed) {
            return None;
        }
        let script = &mut *self.script();
        let number = script.requests;
        script.requests += 1;
        if script.plan.gone.is_some_and(|gone| number >= gone) {
            self.set_gone(true);
        }
        if script.next.front().is_some_and(|next| *next != InjectedFault::Full) {
            return script.next.pop_front();
        }
        let FaultPlan { after, errors, wrong, panics, stalls, late, full: _, gone: _ } = script.plan;
        if number < after {
            return None;
        }
        let chances = [
            (errors, InjectedFault::Error),
            (wrong, InjectedFault::Wrong),
            (panics, InjectedFault::Panic),
            (stalls, InjectedFault::Stall),
            (late, InjectedFault::Late),
        ];
        chances.into_iter().find(|(chance, _)| script.random.one_in(*chance)).map(|(_, fault)| fault)
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.shared.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the fault of every call when the device is gone.
pub(crate) fn gone_fault() -> Fault {
    Fault::failed("the device is gone")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_every_field_of_a_plan() {
        let text = "errors=1/100, wrong=1/7,panics=1/8,stalls=1/2,late=1/3,full=1/4,after=5,gone=6";
        let plan: FaultPlan = text.parse().unwrap();
        let one_in = NonZero::new;
        assert_eq!(
            plan,
            FaultPlan {
                after: 5,
                errors: one_in(100),
                wrong: one_in(7),
                panics: one_in(8),
                stalls: one_in(2),
                late: one_in(3),
                full: one_in(4),
                gone: Some(6)
            }
        );
        assert_eq!("".parse(), Ok(FaultPlan::default()));
        for wrong in ["errors", "errors=2/3", "errors=1/0", "errors=1/x", "after=-1", "smoke=1/2"] {
            assert!(wrong.parse::<FaultPlan>().unwrap_err().starts_with(&format!("'{wrong}' is not a valid fault")));
        }
    }

    #[test]
    fn faults_have_the_planned_frequency_and_repeat() {
        let run = || {
            let faults = FaultInjector::default();
            faults.set_plan("errors=1/10,late=1/5,after=100".parse().unwrap());
            (0..2100).map(|_| faults.next_fault()).collect::<Vec<_>>()
        };
        let faults = run();
        assert_eq!(faults, run());
        let count = |fault| faults.iter().filter(|injected| **injected == fault).count();
        assert!(faults[..100].iter().all(Option::is_none), "no fault before `after`");
        assert!((150..250).contains(&count(Some(InjectedFault::Error))), "{}", count(Some(InjectedFault::Error)));
        assert!((290..430).contains(&count(Some(InjectedFault::Late))), "{}", count(Some(InjectedFault::Late)));
    }

    #[test]
    fn injected_faults_come_in_order() {
        let faults = FaultInjector::default();
        faults.inject(InjectedFault::Error, 2);
        faults.inject(InjectedFault::Full, 1);
        faults.inject(InjectedFault::Stall, 1);
        assert!(!faults.take_full_fault(), "errors come first");
        assert_eq!([faults.next_fault(), faults.next_fault()], [Some(InjectedFault::Error); 2]);
        assert_eq!(faults.next_fault(), None, "full concerns submissions");
        assert!(faults.take_full_fault());
        assert_eq!([faults.next_fault(), faults.next_fault()], [Some(InjectedFault::Stall), None]);
    }
}
