//! The memory of a guest, as its front end mapped it.

use std::fs::File;
use std::io;
use std::sync::Arc;

use nix::sys::statfs::{HUGETLBFS_MAGIC, TMPFS_MAGIC, fstatfs};
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

use crate::fault::Watch;

/// Regions of one guest. Front ends have a handful; each that memory is plugged in with is one more.
pub(crate) const MOST_REGIONS: usize = 64;
/// Bytes of one guest's regions. A process has 2^47 addresses on x86-64, and all guests share them.
const MOST_BYTES: u64 = 8 << 40;

/// The guest's memory at one time. A burst keeps the one with which it began, until it has answered.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Ends before the mappings do.
    watches: Vec<Watch>,
    map: GuestMemoryMmap,
    regions: Vec<Region>,
}

#[derive(Clone, Debug)]
struct Region {
    /// In the front end, whose addresses rings are told by.
    user: u64,
    guest: u64,
    length: u64,
    mapping: Arc<GuestRegionMmap>,
}

impl Memory {
    /// Maps all regions of a table.
    ///
    /// # Errors
    /// A region that overlaps another one, that wraps, or whose file is shorter than it says; one on a disk; too many bytes.
    pub(crate) fn new(table: &[VhostUserMemoryRegion], files: Vec<File>) -> io::Result<Self> {
        let regions = table.iter().zip(files).map(|(region, file)| Region::map(region, file));
        Self::of(regions.collect::<io::Result<Vec<_>>>()?)
    }

    /// The same memory with one region more.
    pub(crate) fn with(old: Option<&Self>, region: &VhostUserMemoryRegion, file: File) -> io::Result<Self> {
        let mut regions = old.map_or_else(Vec::new, |old| old.regions.clone());
        regions.push(Region::map(region, file)?);
        Self::of(regions)
    }

    /// The same memory without a region; `None` when it was the last.
    pub(crate) fn without(&self, region: &VhostUserMemoryRegion) -> io::Result<Option<Self>> {
        let mut regions = self.regions.clone();
        regions.retain(|known| (known.guest, known.length) != (region.guest_phys_addr, region.memory_size));
        if regions.len() == self.regions.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if regions.is_empty() { Ok(None) } else { Self::of(regions).map(Some) }
    }

    fn of(mut regions: Vec<Region>) -> io::Result<Self> {
        let bytes = regions.iter().try_fold(0, |bytes: u64, region| bytes.checked_add(region.length));
        if regions.len() > MOST_REGIONS || bytes.is_none_or(|bytes| bytes > MOST_BYTES) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        regions.sort_unstable_by_key(|region| region.guest);
        let mapped = regions.iter().map(|region| region.mapping.clone()).collect();
        let map = GuestMemoryMmap::from_arc_regions(mapped).map_err(io::Error::other)?;
        let watch = |region: &Region| Watch::new(region.mapping.as_ptr() as usize, region.length as usize);
        let watches = regions.iter().map(watch).collect::<io::Result<_>>()?;
        Ok(Self { watches, map, regions })
    }

    /// For reads and writes, which copy.
    pub(crate) fn map(&self) -> &GuestMemoryMmap {
        &self.map
    }

    /// Whether the front end took memory away that the guest was told it has.
    pub(crate) fn is_lost(&self) -> bool {
        self.watches.iter().any(Watch::is_lost)
    }

    /// Where the guest has what the front end has at `address`.
    pub(crate) fn guest_address(&self, address: u64) -> Option<u64> {
        let holds = |region: &&Region| address.wrapping_sub(region.user) < region.length;
        self.regions.iter().find(holds).and_then(|region| region.guest.checked_add(address - region.user))
    }
}

impl Region {
    fn map(region: &VhostUserMemoryRegion, file: File) -> io::Result<Self> {
        is_memory(&file)?;
        let end = region.mmap_offset.checked_add(region.memory_size);
        let about = file.metadata()?;
        if end.is_none_or(|end| about.is_file() && about.len() < end) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mapping: MmapRegion = region.mmap_region(file).map_err(io::Error::other)?;
        let mapping = GuestRegionMmap::new(mapping, GuestAddress(region.guest_phys_addr))
            .ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self {
            user: region.user_addr,
            guest: region.guest_phys_addr,
            length: region.memory_size,
            mapping: Arc::new(mapping),
        })
    }
}

/// Whether a file is memory of the kernel's own: of memfd_create(2), of /dev/shm, or huge pages. A page of any other may be waited for as long as a disk
/// or a program takes, and with FUSE that program may be the front end, while the thread that waits serves all guests. Front ends can keep no page of
/// these back: userfaultfd(2) is about the mappings of the process that asks for it.
fn is_memory(file: &File) -> io::Result<()> {
    // A file of FUSE may keep its own connection waiting here.
    match fstatfs(file)?.filesystem_type() {
        TMPFS_MAGIC | HUGETLBFS_MAGIC => Ok(()),
        _ => Err(io::Error::new(io::ErrorKind::Unsupported, "guest memory that is neither of tmpfs nor of hugetlbfs")),
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
    fn memory_that_is_cut_off_reads_as_zeros_and_is_lost() {
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
        assert!(!other.is_lost(), "memory of another guest is as it was");
    }

    #[test]
    fn addresses_of_the_front_end_are_those_of_the_guest_within_a_region_only() {
        let memory = Memory::new(&[region(0x1000, SIZE)], vec![file()]).unwrap();
        assert_eq!(memory.guest_address(0x7000_1004), Some(0x1004));
        assert_eq!(memory.guest_address(0x7000_1000 + SIZE), None);
        assert_eq!(memory.guest_address(0x7000_0fff), None);
    }

    #[test]
    fn regions_come_and_go_one_by_one() {
        let one = Memory::with(None, &region(0, SIZE), file()).unwrap();
        let two = Memory::with(Some(&one), &region(SIZE, SIZE), file()).unwrap();
        drop(one);
        two.map().write_slice(&[1; 8], GuestAddress(SIZE - 4)).unwrap();
        assert!(two.without(&region(5, SIZE)).is_err());
        let rest = two.without(&region(0, SIZE)).unwrap().unwrap();
        assert!(rest.map().write_slice(&[1; 8], GuestAddress(0)).is_err());
        assert!(rest.without(&region(SIZE, SIZE)).unwrap().is_none());
        assert!(Memory::with(Some(&two), &region(SIZE - 1, SIZE), file()).is_err(), "two regions overlap");
        assert!(Memory::new(&[region(0, SIZE + 1)], vec![file()]).is_err(), "the file is shorter");
    }

    #[test]
    fn memory_is_of_file_systems_that_answer_by_themselves() {
        let page = region(0, 4096);
        let in_memory = File::from(memfd_create(c"guest", MFdFlags::MFD_HUGETLB).unwrap());
        let on_disk = File::open(std::env::current_exe().unwrap()).unwrap();
        let of_the_kernel = File::open("/proc/self/status").unwrap();
        for file in [on_disk, of_the_kernel] {
            let error = Memory::new(&[page], vec![file.try_clone().unwrap()]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
            assert_eq!(Memory::with(None, &page, file).unwrap_err().kind(), io::ErrorKind::Unsupported);
        }
        // There may be no huge pages: then it is too short, and nothing else.
        let error = Memory::new(&[page], vec![in_memory]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    }

    #[test]
    fn a_guest_takes_so_many_addresses_and_no_more() {
        let file = file();
        file.set_len(MOST_BYTES).unwrap();
        let half = |guest: u64| region(guest, MOST_BYTES / 2);
        let two = |second: u64| {
            Memory::new(
                &[half(0), region(MOST_BYTES / 2, second)],
                vec![file.try_clone().unwrap(), file.try_clone().unwrap()],
            )
        };
        let whole = two(MOST_BYTES / 2).unwrap();
        assert!(Memory::with(Some(&whole), &region(MOST_BYTES, 4096), file.try_clone().unwrap()).is_err());
        assert!(two(MOST_BYTES / 2 + 4096).is_err());
    }
}
