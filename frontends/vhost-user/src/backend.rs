//! The messages of a front end about its guest, as parsed by the crate `vhost`.

use std::fs::File;
use std::io;
use std::sync::Arc;

use gantry_abi_virtio_crypto::constants::feature;
use gantry_abi_virtio_crypto::{Config, vhost_user};
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight, VhostUserLog,
    VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use virtio_queue::QueueT;
use vm_memory::GuestAddress;

use crate::guest::{Guest, QUEUES};
use crate::memory::{MAX_REGIONS, Memory};
use crate::ring::MAX_QUEUE_SIZE;
use crate::worker::{Shared, token};

/// VIRTIO_F_VERSION_1. A front end that passes it on also passes on the features of the guest's driver.
const VERSION_1: u64 = 1 << 32;
/// VHOST_USER_F_PROTOCOL_FEATURES.
const PROTOCOL_FEATURES: u64 = 1 << 30;
/// VIRTIO_F_EVENT_IDX.
const EVENT_IDX: u64 = 1 << 29;
/// VIRTIO_F_INDIRECT_DESC.
const INDIRECT_DESC: u64 = 1 << 28;
const CRYPTO_FEATURES: u64 = 1 << feature::REVISION_1
    | 1 << feature::CIPHER_STATELESS_MODE
    | 1 << feature::HASH_STATELESS_MODE
    | 1 << feature::MAC_STATELESS_MODE
    | 1 << feature::AEAD_STATELESS_MODE
    | 1 << feature::AKCIPHER_STATELESS_MODE;
const OFFERED_FEATURES: u64 = VERSION_1 | PROTOCOL_FEATURES | EVENT_IDX | INDIRECT_DESC | CRYPTO_FEATURES;

/// A connection's view of a guest.
pub(crate) struct Backend {
    guest: Arc<Guest>,
    shared: Arc<Shared>,
    config: Config,
    features: u64,
    protocol_features: u64,
}

impl Backend {
    pub(crate) fn new(guest: Arc<Guest>, shared: Arc<Shared>, config: Config) -> Self {
        Self { guest, shared, config, features: 0, protocol_features: 0 }
    }

    /// Returns whether rings start without being enabled. The protocol requires this for front ends without protocol features, and
    /// QEMU's cryptodev never enables a ring.
    fn starts_without_enable(&self) -> bool {
        self.features & PROTOCOL_FEATURES == 0
            || self.protocol_features >> vhost_user::PROTOCOL_F_CRYPTO_SESSION & 1 == 1
    }

    /// Changes a ring, and starts it if possible.
    fn update_ring(&self, index: usize, update: impl FnOnce(&mut crate::ring::Ring) -> io::Result<()>) -> Result<()> {
        let mut ring = self.guest.ring(index).ok_or(Error::InvalidParam)?;
        update(&mut ring).map_err(Error::ReqHandlerError)?;
        let token = token(&self.guest, index);
        ring.start(self.starts_without_enable(), &self.shared.epoll, token).map_err(Error::ReqHandlerError)
    }

    /// Changes a ring while no requests are taken from it.
    fn update_stopped_ring(
        &self,
        index: usize,
        update: impl FnOnce(&mut crate::ring::Ring) -> io::Result<()>,
    ) -> Result<()> {
        self.guest.stop_ring(index, &self.shared.epoll).ok_or(Error::InvalidParam)?;
        self.update_ring(index, update)
    }
}

impl VhostUserBackendReqHandlerMut for Backend {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        for index in 0..QUEUES {
            self.guest.stop_ring(index, &self.shared.epoll);
            if let Some(mut ring) = self.guest.ring(index) {
                ring.reset();
            }
        }
        self.features = 0;
        self.guest.set_features(0);
        self.guest.sessions().clear();
        self.guest.counters.set_sessions(0);
        self.guest.clear_broken();
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(OFFERED_FEATURES)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !OFFERED_FEATURES != 0 {
            return Err(Error::InvalidParam);
        }
        self.features = features;
        self.guest.set_features(features);
        // QEMU's cryptodev does not report its guest's features.
        let event_idx = (features & VERSION_1 != 0).then_some(features & EVENT_IDX != 0);
        for index in 0..QUEUES {
            self.update_ring(index, |ring| {
                ring.event_idx = event_idx;
                ring.queue.set_event_idx(event_idx.unwrap_or(true));
                Ok(())
            })?;
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        table: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<u64>>> {
        let memory = Memory::new(table, files).map_err(Error::ReqHandlerError)?;
        self.guest.set_memory(Some(memory));
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let num = u16::try_from(num).ok().filter(|num| *num <= MAX_QUEUE_SIZE).ok_or(Error::InvalidParam)?;
        self.update_stopped_ring(index as usize, |ring| ring.queue.try_set_size(num).map_err(io::Error::other))
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        let memory = self.guest.memory().ok_or(Error::InvalidParam)?;
        let address =
            |address| memory.guest_address(address).map(GuestAddress).ok_or(io::Error::from(io::ErrorKind::NotFound));
        self.update_stopped_ring(index as usize, |ring| {
            let queue = &mut ring.queue;
            queue.try_set_desc_table_address(address(descriptor)?).map_err(io::Error::other)?;
            queue.try_set_avail_ring_address(address(available)?).map_err(io::Error::other)?;
            queue.try_set_used_ring_address(address(used)?).map_err(io::Error::other)?;
            // Messages contain only the index of available requests.
            let used = queue.used_idx(memory.map(), std::sync::atomic::Ordering::Relaxed).map_err(io::Error::other)?;
            queue.set_next_used(used.0);
            Ok(())
        })
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.update_stopped_ring(index as usize, |ring| {
            ring.queue.set_next_avail(base as u16);
            Ok(())
        })
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let next = self.guest.stop_ring(index as usize, &self.shared.epoll).ok_or(Error::InvalidParam)?;
        self.guest.ring(index as usize).ok_or(Error::InvalidParam)?.clear_eventfds();
        Ok(VhostUserVringState::new(index, u32::from(next)))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.update_stopped_ring(index.into(), |ring| ring.set_kick(file))
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.update_ring(index.into(), |ring| ring.set_call(file))
    }

    fn set_vring_err(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.update_ring(index.into(), |ring| ring.set_error(file))
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CRYPTO_SESSION
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        self.protocol_features = features;
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(QUEUES as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        if enable {
            return self.update_ring(index as usize, |ring| {
                ring.set_enabled(true);
                Ok(())
            });
        }
        self.update_stopped_ring(index as usize, |ring| {
            ring.set_enabled(false);
            Ok(())
        })
    }

    fn get_config(&mut self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let mut config = self.config;
        if self.guest.is_broken() {
            config.status = 0;
        }
        let bytes = config.encode();
        let (start, size) = (offset as usize, size as usize);
        bytes.get(start..start.saturating_add(size)).map(<[u8]>::to_vec).ok_or(Error::InvalidParam)
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        Err(Error::InvalidOperation("the configuration is read-only"))
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        Err(Error::InvalidOperation("not a GPU"))
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        Err(Error::InvalidOperation("no shared objects"))
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(MAX_REGIONS as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _: Option<bool>,
    ) -> Result<Option<u64>> {
        let memory =
            Memory::with_region(self.guest.memory().as_deref(), region, file).map_err(Error::ReqHandlerError)?;
        self.guest.set_memory(Some(memory));
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let memory = self.guest.memory().ok_or(Error::InvalidParam)?;
        self.guest.set_memory(memory.without_region(region).map_err(Error::ReqHandlerError)?);
        Ok(())
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(Error::InvalidOperation("not offered"))
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        Err(Error::InvalidOperation("not offered"))
    }
}
