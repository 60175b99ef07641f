//! The memory of a guest, as its front end mapped it.

use std::fs::File;
use std::io;
use std::sync::Arc;

use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::{GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

use crate::fault::Watch;

/// Regions of one guest. Front ends have a handful; each that memory is plugged in with is one more.
pub(crate) const MOST_REGIONS: usize = 64;

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
    /// A region that overlaps another one, that wraps, or whose file is shorter than it says.
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
        if regions.len() > MOST_REGIONS {
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
}
