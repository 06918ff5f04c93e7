//! The heap of the program: that of the C library, and in front of it, for each thread, the blocks it has given back. A call takes
//! and gives back 160 of them, mostly of the same few sizes, and the C library's own cache holds seven of a size and none
//! above a kilobyte: a seventh of a small read went into what comes after it.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    ptr,
};

/// What every block of the C library is aligned to.
const ALIGN: usize = 16;
/// Up to here sizes are rounded up to the next `FINE`.
const SMALL: usize = 1 << 10;
const FINE: usize = 16;
/// Up to here to the next `COARSE`; above it nothing is kept.
const LARGE: usize = 8 << 10;
const COARSE: usize = 256;
const FINE_CLASSES: usize = SMALL / FINE;
const CLASSES: usize = FINE_CLASSES + (LARGE - SMALL) / COARSE;
/// How much of one size a thread keeps, about.
const KEPT_BYTES: usize = 16 << 10;

pub(crate) struct Heap;

/// The blocks that a thread has given back, by size. Each holds the address of the next in its first bytes.
struct Kept {
    lists: [Cell<*mut u8>; CLASSES],
    counts: [Cell<u8>; CLASSES],
}

thread_local! {
    static KEPT: Kept = const { Kept::new() };
}

/// Blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class(usize);

impl Class {
    fn of(layout: Layout) -> Option<Self> {
        if layout.align() > ALIGN {
            return None;
        }
        match layout.size() {
            size @ ..=SMALL => Some(Self(size.saturating_sub(1) / FINE)),
            size @ ..=LARGE => Some(Self(FINE_CLASSES + (size - SMALL - 1) / COARSE)),
            _ => None,
        }
    }

    const fn bytes(self) -> usize {
        match self.0.checked_sub(FINE_CLASSES) {
            None => (self.0 + 1) * FINE,
            Some(above) => SMALL + (above + 1) * COARSE,
        }
    }

    /// As the C library is asked for it.
    fn layout(self) -> Layout {
        Layout::from_size_align(self.bytes(), ALIGN).expect("a small size and a power of two")
    }

    /// How many of it a thread keeps. Written down, because every block that is given back asks.
    fn most(self) -> u8 {
        const MOST: [u8; CLASSES] = {
            let mut most = [0; CLASSES];
            let mut number = 0;
            while number < CLASSES {
                most[number] = match KEPT_BYTES / Class(number).bytes() {
                    ..2 => 2,
                    enough @ 2..64 => enough as u8,
                    _ => 64,
                };
                number += 1;
            }
            most
        };
        MOST[self.0]
    }
}

impl Kept {
    const fn new() -> Self {
        Self {
            lists: [const { Cell::new(ptr::null_mut()) }; CLASSES],
            counts: [const { Cell::new(0) }; CLASSES],
        }
    }

    /// A block of this size, if one was given back.
    fn take(&self, class: Class) -> Option<*mut u8> {
        let (list, count) = (&self.lists[class.0], &self.counts[class.0]);
        let block = list.get();
        if block.is_null() {
            return None;
        }
        #[expect(unsafe_code, reason = "the list is kept in the blocks themselves")]
        // SAFETY: the block was put here by `put`, which wrote the next one's address into it, and nobody has it since.
        list.set(unsafe { block.cast::<*mut u8>().read() });
        count.set(count.get().saturating_sub(1));
        Some(block)
    }

    /// Keeps a block that nobody uses any more, unless there are enough of its size.
    fn put(&self, class: Class, block: *mut u8) -> bool {
        let (list, count) = (&self.lists[class.0], &self.counts[class.0]);
        if count.get() >= class.most() {
            return false;
        }
        #[expect(unsafe_code, reason = "the list is kept in the blocks themselves")]
        // SAFETY: the block has at least `FINE` bytes, is aligned to as many, and its owner has given it up.
        unsafe {
            block.cast::<*mut u8>().write(list.get());
        }
        list.set(block);
        count.set(count.get() + 1);
        true
    }
}

impl Drop for Kept {
    /// With its thread everything it kept goes back.
    fn drop(&mut self) {
        for class in (0..CLASSES).map(Class) {
            while let Some(block) = self.take(class) {
                #[expect(unsafe_code, reason = "giving back memory is")]
                // SAFETY: all blocks of a class came from the C library with the layout of that class.
                unsafe {
                    System.dealloc(block, class.layout());
                }
            }
        }
    }
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: every block comes from `System` with the layout of its class, or with its own layout when it has no class, and goes
// back with the same. A class is a function of the layout alone, which whoever gives a block back has to name again. A kept
// block is on one list only and leaves it before it is handed out. Nothing here unwinds: where the lists are gone with their
// thread, `System` is asked.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = Class::of(layout) else { return unsafe { System.alloc(layout) } };
        let kept = KEPT.try_with(|kept| kept.take(class)).unwrap_or(None);
        kept.unwrap_or_else(|| unsafe { System.alloc(class.layout()) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(class) = Class::of(layout) else { return unsafe { System.alloc_zeroed(layout) } };
        match KEPT.try_with(|kept| kept.take(class)) {
            Ok(Some(block)) => {
                unsafe { block.write_bytes(0, layout.size()) };
                block
            }
            _ => unsafe { System.alloc_zeroed(class.layout()) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(class) = Class::of(layout) else {
            return unsafe { System.dealloc(block, layout) };
        };
        if !KEPT.try_with(|kept| kept.put(class, block)).unwrap_or(false) {
            unsafe { System.dealloc(block, class.layout()) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let (from, to) = (Class::of(layout), Class::of(wanted));
        if from.is_some() && from == to {
            return block;
        }
        let (Some(from), Some(_)) = (from, to) else {
            // One of them is large, and the C library may find a way to leave it where it is.
            let old = from.map_or(layout, Class::layout);
            let size = to.map_or(size, Class::bytes);
            return unsafe { System.realloc(block, old, size) };
        };
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            let bytes = layout.size().min(size);
            unsafe { moved.copy_from_nonoverlapping(block, bytes) };
            if !KEPT.try_with(|kept| kept.put(from, block)).unwrap_or(false) {
                unsafe { System.dealloc(block, from.layout()) }
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use proptest::prelude::*;

    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).expect("a power of two")
    }

    #[test]
    fn a_class_holds_what_belongs_to_it() {
        let mut before = None;
        for size in 1..=LARGE {
            let class = Class::of(layout(size, 8)).expect("kept");
            assert!(class.bytes() >= size && class.bytes() < size + COARSE, "{size}");
            assert!(
                class.bytes().is_multiple_of(ALIGN) && class.0 < CLASSES && class.most() >= 2,
                "{size}"
            );
            assert_eq!(Class::of(class.layout()), Some(class), "{size}");
            assert!(before.is_none_or(|Class(it)| it == class.0 || it + 1 == class.0), "{size}");
            before = Some(class);
        }
        assert_eq!(before, Some(Class(CLASSES - 1)));
        assert_eq!(Class::of(layout(LARGE + 1, 1)), None);
        assert_eq!(Class::of(layout(32, 32)), None);
    }

    #[test]
    fn what_is_given_back_is_handed_out_again_and_not_without_end() {
        let kept = Kept::new();
        let class = Class::of(layout(100, 8)).expect("kept");
        let blocks: Vec<*mut u8> = (0..=class.most()).map(|_| new(class)).collect();
        let (last, first) = blocks.split_last().expect("there are some");
        assert!(first.iter().all(|block| kept.put(class, *block)));
        assert!(!kept.put(class, *last));
        assert!(first.iter().rev().all(|block| kept.take(class) == Some(*block)));
        assert_eq!(kept.take(class), None);
        // The last go back with their keeper.
        assert!(
            blocks.iter().filter(|block| kept.put(class, **block)).count()
                == usize::from(class.most())
        );
        give_back(class, *last);
    }

    #[expect(unsafe_code, reason = "as an owner would")]
    fn new(class: Class) -> *mut u8 {
        // SAFETY: its size is not zero.
        unsafe { System.alloc(class.layout()) }
    }

    #[expect(unsafe_code, reason = "as an owner would")]
    fn give_back(class: Class, block: *mut u8) {
        // SAFETY: it comes from `new`, and nobody else has it.
        unsafe { System.dealloc(block, class.layout()) }
    }

    proptest! {
        /// Through vectors, as everybody meets it: each keeps what was put into it while others come, grow, shrink and go,
        /// on this thread and on another.
        #[test]
        fn nobody_writes_into_the_block_of_another(
            steps in prop::collection::vec((0_usize..12, 0_usize..20_000, any::<bool>()), 1..200),
        ) {
            let (send, gone) = mpsc::channel::<Vec<u8>>();
            let other = thread::spawn(move || gone.into_iter().map(|it| it.len()).sum::<usize>());
            let mut held: Vec<Vec<u8>> = vec![Vec::new(); 12];
            let mut sent = 0;
            for (place, size, is_sent) in steps {
                let value = u8::try_from(place).unwrap_or_default();
                let it = &mut held[place];
                prop_assert!(it.iter().all(|byte| *byte == value));
                it.resize(size, value);
                it.shrink_to_fit();
                if is_sent {
                    sent += it.len();
                    prop_assert!(send.send(std::mem::take(it)).is_ok());
                    *it = vec![0; size / 2];
                    prop_assert!(it.iter().all(|byte| *byte == 0));
                    it.fill(value);
                }
            }
            drop(send);
            prop_assert_eq!(other.join().ok(), Some(sent));
            for (value, it) in (0_u8..).zip(&held) {
                prop_assert!(it.iter().all(|byte| *byte == value));
            }
        }
    }
}
