//! Verification of what was compressed: other devices compress to other bytes, and all of them are right that lead back to the data.

use super::shadow::Comparison;
use crate::algorithm::{AlgorithmInfo, Operation, Outcome};
use crate::driver::{DeviceSession, Operands, guarded};

/// Looks at the result of a request: `output`, and how many bytes of it were written. Where the device was wrong, they have the right
/// result afterwards.
pub(super) fn check(
    reference: &dyn DeviceSession,
    (operation, input): (Operation, &[u8]),
    (output, written): (&mut [u8], &mut usize),
    outcome: Outcome,
) -> Comparison {
    let run = |operation, input: &[u8], output: &mut [u8], written: &mut usize| {
        guarded(|| reference.run(Operands::Compression { operation, input, output, written })).ok()
    };
    let result = output.get(..*written);
    if operation == Operation::Compress {
        let agrees = match outcome {
            Outcome::Done => {
                let (mut back, mut length) = (vec![0; input.len()], 0);
                let Some(right) = run(Operation::Decompress, result.unwrap_or_default(), &mut back, &mut length) else {
                    return Comparison::None;
                };
                right == Outcome::Done && length == input.len() && back == input
            }
            // How much is saved is the device's.
            Outcome::NoRoom => output.len() < AlgorithmInfo::compressed_max(input.len()),
            _ => false,
        };
        if agrees {
            return Comparison::Same;
        }
        return run(operation, input, output, written).map_or(Comparison::None, Comparison::Differs);
    }
    let (mut right, mut length) = (vec![0; output.len()], 0);
    let Some(outcome_again) = run(operation, input, &mut right, &mut length) else { return Comparison::None };
    let agrees = match (outcome, outcome_again) {
        (Outcome::Done, Outcome::Done) => result == right.get(..length),
        // Damaged data may end in either way, by how far a device reads before it looks at its room.
        (one, other) => one != Outcome::Done && other != Outcome::Done,
    };
    if agrees {
        return Comparison::Same;
    }
    output.copy_from_slice(&right);
    *written = length;
    Comparison::Differs(outcome_again)
}
