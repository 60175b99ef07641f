//! Checks that a process and its children draw different random numbers for signatures and secrets. Two digests signed with one
//! ECDSA nonce reveal the key.

mod common;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};

use common::{bytes, params, software};
use gantry_core::driver::Operands;
use gantry_core::{Algorithm, Operation, Session, SessionParams};

struct Sessions {
    signs: Session,
    encapsulates: Session,
    public: Vec<u8>,
}

impl Sessions {
    fn new() -> Self {
        let gantry = software();
        let signs = gantry.session(params(Algorithm::EcdsaP256)).unwrap();
        let kem = SessionParams::new(Algorithm::MlKem512, &[]).with_direction(Operation::Encapsulate);
        let encapsulates = gantry.session(kem).unwrap();
        let (mut private, mut public) = ([0; 64], vec![0; 800]);
        let key_gen = Operands::KeyGen { seed: &bytes(64, 1), private: &mut private, public: &mut public };
        encapsulates.run(key_gen).unwrap().ok().unwrap();
        Self { signs, encapsulates, public }
    }

    /// Returns a signature and a secret, for the same digest and key each time.
    fn draw(&self) -> [Vec<u8>; 2] {
        let (mut signature, mut ciphertext, mut secret) = (vec![0; 64], [0; 768], vec![0; 32]);
        self.signs.sign(&[7; 32], &mut signature).unwrap();
        self.encapsulates.encapsulate(&self.public, &mut ciphertext, &mut secret).unwrap();
        [signature, secret]
    }
}

fn fork() -> libc::pid_t {
    // SAFETY: the child draws, writes and ends; the allocator's locks survive `fork`.
    unsafe { libc::fork() }
}

/// Creates a child without the C library's knowledge.
fn clone() -> libc::pid_t {
    // SAFETY: as in `fork`; memory is not shared.
    unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(libc::SIGCHLD), 0, 0, 0, 0) as libc::pid_t }
}

#[test]
fn a_child_process_draws_other_random_numbers() {
    let sessions = Sessions::new();
    // The first draw initialises the generator.
    let mut drawn = vec![sessions.draw()];
    for make in [fork, clone, fork] {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let child = make();
        if child == 0 {
            writer.write_all(&sessions.draw().concat()).unwrap();
            // SAFETY: ends the child without the exit handlers of the test harness.
            unsafe { libc::_exit(0) };
        }
        drop(writer);
        let (mut signature, mut secret) = (vec![0; 64], vec![0; 32]);
        reader.read_exact(&mut signature).unwrap();
        reader.read_exact(&mut secret).unwrap();
        // SAFETY: waits for the child created above.
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
        drawn.extend([[signature, secret], sessions.draw()]);
    }
    // The half of the signature that depends only on its random number.
    let numbers: BTreeSet<&[u8]> = drawn.iter().flat_map(|[signature, secret]| [&signature[..32], secret]).collect();
    assert_eq!(numbers.len(), 2 * drawn.len());
}
