//! The memory of a guest, mapped from the files of its front end.

use std::fs::File;
use std::io;
use std::sync::Arc;

use nix::sys::statfs::{HUGETLBFS_MAGIC, TMPFS_MAGIC, fstatfs};
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

use crate::fault::SigbusGuard;

/// Most regions of a guest. Front ends have a handful, and one more for each module of plugged-in memory.
pub(crate) const MAX_REGIONS: usize = 64;
/// Most bytes of a guest's regions. A process has 2^47 addresses on x86-64, which all guests share.
const MAX_GUEST_BYTES: u64 = 8 << 40;

/// A snapshot of the guest's memory map. A burst keeps the map with which it began until it has answered its requests.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Dropped before the mappings.
    sigbus_guards: Vec<SigbusGuard>,
    map: GuestMemoryMmap,
    regions: Vec<Region>,
}

#[derive(Clone, Debug)]
struct Region {
    /// The region's address in the front end. Messages contain the addresses of rings as addresses in the front end.
    user_address: u64,
    guest_address: u64,
    length: u64,
    mapping: Arc<GuestRegionMmap>,
}

impl Memory {
    /// Maps all regions of a table.
    ///
    /// # Errors
    /// A region overlaps another one, wraps, or exceeds its file; its file is on a disk; there are too many bytes.
    pub(crate) fn new(table: &[VhostUserMemoryRegion], files: Vec<File>) -> io::Result<Self> {
        let regions = table.iter().zip(files).map(|(region, file)| Region::map(region, file));
        Self::from_regions(regions.collect::<io::Result<Vec<_>>>()?)
    }

    /// Adds a region to the memory.
    pub(crate) fn with_region(old: Option<&Self>, region: &VhostUserMemoryRegion, file: File) -> io::Result<Self> {
        let mut regions = old.map_or_else(Vec::new, |old| old.regions.clone());
        regions.push(Region::map(region, file)?);
        Self::from_regions(regions)
    }

    /// Removes a region from the memory. Returns `None` if the region was the last one.
    pub(crate) fn without_region(&self, region: &VhostUserMemoryRegion) -> io::Result<Option<Self>> {
        let mut regions = self.regions.clone();
        regions.retain(|other| (other.guest_address, other.length) != (region.guest_phys_addr, region.memory_size));
        if regions.len() == self.regions.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if regions.is_empty() { Ok(None) } else { Self::from_regions(regions).map(Some) }
    }

    fn from_regions(mut regions: Vec<Region>) -> io::Result<Self> {
        let bytes = regions.iter().try_fold(0, |bytes: u64, region| bytes.checked_add(region.length));
        if regions.len() > MAX_REGIONS || bytes.is_none_or(|bytes| bytes > MAX_GUEST_BYTES) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        regions.sort_unstable_by_key(|region| region.guest_address);
        let mapped = regions.iter().map(|region| region.mapping.clone()).collect();
        let map = GuestMemoryMmap::from_arc_regions(mapped).map_err(io::Error::other)?;
        let guard = |region: &Region| SigbusGuard::new(region.mapping.as_ptr() as usize, region.length as usize);
        let sigbus_guards = regions.iter().map(guard).collect::<io::Result<_>>()?;
        Ok(Self { sigbus_guards, map, regions })
    }

    /// Returns the map, for reads and writes that copy the bytes.
    pub(crate) fn map(&self) -> &GuestMemoryMmap {
        &self.map
    }

    /// Returns whether the front end has truncated memory that the guest uses.
    pub(crate) fn is_lost(&self) -> bool {
        self.sigbus_guards.iter().any(SigbusGuard::is_lost)
    }

    /// Translates an address in the front end to an address in the guest.
    pub(crate) fn guest_address(&self, address: u64) -> Option<u64> {
        let contains = |region: &&Region| address.wrapping_sub(region.user_address) < region.length;
        self.regions
            .iter()
            .find(contains)
            .and_then(|region| region.guest_address.checked_add(address - region.user_address))
    }
}

impl Region {
    fn map(region: &VhostUserMemoryRegion, file: File) -> io::Result<Self> {
        require_kernel_memory(&file)?;
        let end = region.mmap_offset.checked_add(region.memory_size);
        let metadata = file.metadata()?;
        if end.is_none_or(|end| metadata.is_file() && metadata.len() < end) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mapping: MmapRegion = region.mmap_region(file).map_err(io::Error::other)?;
        let mapping = GuestRegionMmap::new(mapping, GuestAddress(region.guest_phys_addr))
            .ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self {
            user_address: region.user_addr,
            guest_address: region.guest_phys_addr,
            length: region.memory_size,
            mapping: Arc::new(mapping),
        })
    }
}

/// Checks that a file is in kernel memory: of memfd_create(2), of /dev/shm, or in huge pages. Access to a page of any other file may wait
/// for a disk or a program. With FUSE that program may be the front end, while the waiting thread serves all guests. Front ends cannot hold
/// back pages of these files: userfaultfd(2) affects only the mappings of the process that calls it.
fn require_kernel_memory(file: &File) -> io::Result<()> {
    // With a file in FUSE, this call may wait, and delays only the connection that sent the file.
    match fstatfs(file)?.filesystem_type() {
        TMPFS_MAGIC | HUGETLBFS_MAGIC => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "guest memory must be in tmpfs or hugetlbfs")),
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use vm_memory::Bytes;

    use super::*;

    const SIZE: u64 = 1 << 16;

    fn file() -> File {
        let fd = memfd_create(c"guest", MFdFlags::MFD_CLOEXEC).unwrap();
        let file = File::from(fd);
        file.set_len(SIZE).unwrap();
        file
    }

    fn region(guest: u64, length: u64) -> VhostUserMemoryRegion {
        VhostUserMemoryRegion::new(guest, length, 0x7000_0000 + guest, 0)
    }

    #[test]
    fn truncated_memory_reads_as_zeros_and_is_lost() {
        let file = file();
        let memory = Memory::new(&[region(0x1000, SIZE)], vec![file.try_clone().unwrap()]).unwrap();
        memory.map().write_slice(&[7; 16], GuestAddress(0x9000)).unwrap();
        assert!(!memory.is_lost());
        file.set_len(4096).unwrap();
        let mut bytes = [1; 16];
        memory.map().read_slice(&mut bytes, GuestAddress(0x9000)).unwrap();
        assert_eq!(bytes, [0; 16]);
        assert!(memory.is_lost());
        let other = Memory::new(&[region(0, SIZE)], vec![self::file()]).unwrap();
        assert!(!other.is_lost(), "memory of another guest is unaffected");
    }

    #[test]
    fn front_end_addresses_are_translated_only_within_a_region() {
        let memory = Memory::new(&[region(0x1000, SIZE)], vec![file()]).unwrap();
        assert_eq!(memory.guest_address(0x7000_1004), Some(0x1004));
        assert_eq!(memory.guest_address(0x7000_1000 + SIZE), None);
        assert_eq!(memory.guest_address(0x7000_0fff), None);
    }

    #[test]
    fn regions_are_added_and_removed_one_by_one() {
        let one = Memory::with_region(None, &region(0, SIZE), file()).unwrap();
        let two = Memory::with_region(Some(&one), &region(SIZE, SIZE), file()).unwrap();
        drop(one);
        two.map().write_slice(&[1; 8], GuestAddress(SIZE - 4)).unwrap();
        assert!(two.without_region(&region(5, SIZE)).is_err());
        let rest = two.without_region(&region(0, SIZE)).unwrap().unwrap();
        assert!(rest.map().write_slice(&[1; 8], GuestAddress(0)).is_err());
        assert!(rest.without_region(&region(SIZE, SIZE)).unwrap().is_none());
        assert!(Memory::with_region(Some(&two), &region(SIZE - 1, SIZE), file()).is_err(), "two regions overlap");
        assert!(Memory::new(&[region(0, SIZE + 1)], vec![file()]).is_err(), "the file is shorter");
    }

    #[test]
    fn only_files_in_kernel_memory_are_accepted() {
        let page = region(0, 4096);
        let in_memory = File::from(memfd_create(c"guest", MFdFlags::MFD_HUGETLB).unwrap());
        let on_disk = File::open(std::env::current_exe().unwrap()).unwrap();
        let of_the_kernel = File::open("/proc/self/status").unwrap();
        for file in [on_disk, of_the_kernel] {
            let error = Memory::new(&[page], vec![file.try_clone().unwrap()]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
            assert_eq!(Memory::with_region(None, &page, file).unwrap_err().kind(), io::ErrorKind::Unsupported);
        }
        // Without huge pages the only error is that the file is too short.
        let error = Memory::new(&[page], vec![in_memory]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    }

    #[test]
    fn the_memory_of_a_guest_is_limited() {
        let file = file();
        file.set_len(MAX_GUEST_BYTES).unwrap();
        let half = |guest: u64| region(guest, MAX_GUEST_BYTES / 2);
        let two = |second: u64| {
            Memory::new(
                &[half(0), region(MAX_GUEST_BYTES / 2, second)],
                vec![file.try_clone().unwrap(), file.try_clone().unwrap()],
            )
        };
        let whole = two(MAX_GUEST_BYTES / 2).unwrap();
        assert!(Memory::with_region(Some(&whole), &region(MAX_GUEST_BYTES, 4096), file.try_clone().unwrap()).is_err());
        assert!(two(MAX_GUEST_BYTES / 2 + 4096).is_err());
    }
}
