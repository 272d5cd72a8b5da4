//! A SQLite VFS that wraps the default one, reports each change to a [`Disk`], and fails once the power is off.
//!
//! Input: SQLite's calls. Output: the same calls to the wrapped VFS. Syncs are not passed on: the disk records them,
//! and no real disk has to be synced. Locks and the WAL's shared memory are passed on unchanged.

#![expect(
    unsafe_code,
    reason = "SQLite calls a VFS through C function pointers; here and nowhere else"
)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rusqlite::ffi;

use crate::disk::{Disk, FileId, Kind, Off};

/// Makes the VFS the process's default. Only files in the folder of a [`Disk`] are affected.
pub fn install() {
    INSTALLED.get_or_init(|| {
        // SAFETY: `sqlite3_initialize` may be called at any time, and the default VFS lives as long as the process.
        let vfs = unsafe {
            ffi::sqlite3_initialize();
            let real = ffi::sqlite3_vfs_find(std::ptr::null());
            assert!(!real.is_null(), "SQLite has no VFS");
            Vfs {
                real,
                // Copies the functions that are not replaced, and the data that they need.
                shim: Box::into_raw(Box::new(ffi::sqlite3_vfs {
                    szOsFile: size_of::<File>() as c_int + (*real).szOsFile,
                    pNext: std::ptr::null_mut(),
                    zName: c"countersign-powerloss".as_ptr(),
                    xOpen: Some(open),
                    xDelete: Some(delete),
                    ..*real
                })),
            }
        };
        // SAFETY: the shim is never freed, and its functions follow SQLite's rules.
        let registered = unsafe { ffi::sqlite3_vfs_register(vfs.shim, 1) };
        assert_eq!(registered, ffi::SQLITE_OK, "SQLite refused the VFS");
        // SAFETY: the function has the signature that SQLite requires of an entry point.
        let extended = unsafe { ffi::sqlite3_auto_extension(Some(weaken)) };
        assert_eq!(extended, ffi::SQLITE_OK, "SQLite refused the extension");
        vfs
    });
}

static INSTALLED: OnceLock<Vfs> = OnceLock::new();

struct Vfs {
    real: *mut ffi::sqlite3_vfs,
    shim: *mut ffi::sqlite3_vfs,
}

// SAFETY: both pointers are written before they are shared, and only read afterwards.
unsafe impl Send for Vfs {}
// SAFETY: as above.
unsafe impl Sync for Vfs {}

/// A file as SQLite sees it. The wrapped VFS's file follows in the same memory.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    // Made by `Box::into_raw`; null for a file that is on no disk.
    disk_file: *mut DiskFile,
}

struct DiskFile {
    disk: Arc<Disk>,
    file: FileId,
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    // Version 2 has no memory-mapped files, which would change without a call.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Returns the wrapped VFS's file.
unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: `szOsFile` has room for both files in sequence, and the size of `File` is a multiple of its alignment.
    unsafe { file.cast::<File>().add(1).cast() }
}

/// Returns the file's disk and id, if it is on a disk.
unsafe fn disk_file<'a>(file: *mut ffi::sqlite3_file) -> Option<&'a DiskFile> {
    // SAFETY: `open` writes the pointer and `close` frees it; SQLite uses the file only in between.
    unsafe { (*file.cast::<File>()).disk_file.as_ref() }
}

/// Calls a method of the wrapped file. Evaluates to `SQLITE_IOERR` if there is none.
macro_rules! pass_on {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        // SAFETY: SQLite passes an open file and valid arguments for the method.
        unsafe {
            let file = real($file);
            match (*(*file).pMethods).$method {
                Some(method) => method(file $(, $argument)*),
                None => ffi::SQLITE_IOERR,
            }
        }
    }};
}

unsafe fn path<'a>(name: *const c_char) -> Option<&'a Path> {
    // SAFETY: SQLite's file names are C strings that live as long as the call.
    let name = unsafe { name.as_ref().map(|name| CStr::from_ptr(name)) }?;
    Some(Path::new(OsStr::from_bytes(name.to_bytes())))
}

fn kind(flags: c_int) -> Option<Kind> {
    if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
        Some(Kind::Database)
    } else if flags & (ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL) != 0 {
        Some(Kind::Journal)
    } else if flags & ffi::SQLITE_OPEN_WAL != 0 {
        Some(Kind::Wal)
    } else {
        None
    }
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    let Some(vfs) = INSTALLED.get() else {
        return ffi::SQLITE_CANTOPEN;
    };
    // SAFETY: SQLite passes `szOsFile` bytes. With null methods it does not close a file that failed to open.
    unsafe {
        (*file).pMethods = std::ptr::null();
        (*file.cast::<File>()).disk_file = std::ptr::null_mut();
    }
    // SAFETY: a file name of SQLite, or null.
    let path = unsafe { path(name) };
    let found = path.zip(kind(flags)).and_then(|(path, kind)| {
        let (disk, name) = Disk::of(path)?;
        Some((disk, name, kind, !path.exists()))
    });
    if found.as_ref().is_some_and(|(disk, ..)| disk.is_off()) {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: the wrapped VFS gets its own pointer, and room for its own file.
    let opened = unsafe {
        match (*vfs.real).xOpen {
            Some(open) => open(vfs.real, name, real(file), flags, flags_out),
            None => ffi::SQLITE_CANTOPEN,
        }
    };
    if opened != ffi::SQLITE_OK {
        return opened;
    }
    if let Some((disk, name, kind, is_new)) = found {
        match disk.open(&name, kind, is_new) {
            Ok(id) => {
                let disk_file = Box::new(DiskFile { disk, file: id });
                // SAFETY: SQLite allocated the memory for this file.
                unsafe { (*file.cast::<File>()).disk_file = Box::into_raw(disk_file) };
            }
            Err(Off) => {
                pass_on!(file, xClose);
                return ffi::SQLITE_CANTOPEN;
            }
        }
    }
    // SAFETY: as above.
    unsafe { (*file).pMethods = &METHODS };
    ffi::SQLITE_OK
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, sync_directory: c_int) -> c_int {
    let Some(vfs) = INSTALLED.get() else {
        return ffi::SQLITE_IOERR_DELETE;
    };
    // SAFETY: a file name of SQLite.
    let path = unsafe { path(name) };
    let found = path.filter(|path| path.exists()).and_then(Disk::of);
    let is_on_disk = found.is_some();
    if let Some((disk, name)) = found
        && disk.delete(&name, sync_directory != 0).is_err()
    {
        return ffi::SQLITE_IOERR_DELETE;
    }
    let sync_directory = match is_on_disk {
        true => 0,
        false => sync_directory,
    };
    // SAFETY: the wrapped VFS gets its own pointer.
    unsafe {
        match (*vfs.real).xDelete {
            Some(delete) => delete(vfs.real, name, sync_directory),
            None => ffi::SQLITE_IOERR_DELETE,
        }
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: `open` made the pointer with `Box::into_raw`, and SQLite closes a file once.
    unsafe {
        let disk_file = std::mem::replace(&mut (*file.cast::<File>()).disk_file, std::ptr::null_mut());
        if !disk_file.is_null() {
            drop(Box::from_raw(disk_file));
        }
    }
    pass_on!(file, xClose)
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    to: *mut c_void,
    amount: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes an open file.
    if unsafe { disk_file(file) }.is_some_and(|disk_file| disk_file.disk.is_off()) {
        return ffi::SQLITE_IOERR_READ;
    }
    pass_on!(file, xRead, to, amount, offset)
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    amount: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes an open file.
    if let Some(disk_file) = unsafe { disk_file(file) } {
        let (Ok(at), Ok(length)) = (usize::try_from(offset), usize::try_from(amount)) else {
            return ffi::SQLITE_IOERR_WRITE;
        };
        // SAFETY: `from` points to `amount` bytes.
        let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length) };
        if disk_file.disk.write(disk_file.file, at, bytes).is_err() {
            return ffi::SQLITE_IOERR_WRITE;
        }
    }
    pass_on!(file, xWrite, from, amount, offset)
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    // SAFETY: SQLite passes an open file.
    if let Some(disk_file) = unsafe { disk_file(file) } {
        let length = usize::try_from(size).unwrap_or(0);
        if disk_file.disk.truncate(disk_file.file, length).is_err() {
            return ffi::SQLITE_IOERR_TRUNCATE;
        }
    }
    pass_on!(file, xTruncate, size)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    match unsafe { disk_file(file) } {
        Some(disk_file) => match disk_file.disk.sync(disk_file.file) {
            Ok(()) => ffi::SQLITE_OK,
            Err(Off) => ffi::SQLITE_IOERR_FSYNC,
        },
        None => pass_on!(file, xSync, flags),
    }
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut ffi::sqlite3_int64) -> c_int {
    pass_on!(file, xFileSize, size)
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    pass_on!(file, xLock, level)
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    pass_on!(file, xUnlock, level)
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, result: *mut c_int) -> c_int {
    pass_on!(file, xCheckReservedLock, result)
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes an open file.
    let is_normal = unsafe { disk_file(file) }.is_some_and(|disk_file| disk_file.disk.is_normal());
    // SAFETY: with this operation SQLite passes an array of three strings.
    if operation == ffi::SQLITE_FCNTL_PRAGMA && is_normal && unsafe { sets_sync(argument.cast()) } {
        // SQLite is told that the pragma was handled, and the setting stays the same.
        return ffi::SQLITE_OK;
    }
    pass_on!(file, xFileControl, operation, argument)
}

/// Returns true for `PRAGMA synchronous` with an argument other than `NORMAL`.
unsafe fn sets_sync(strings: *const *const c_char) -> bool {
    // SAFETY: the second string is the pragma's name, the third its argument or null.
    let text = |number| unsafe {
        let string = strings.add(number).read();
        string.as_ref().map(|string| CStr::from_ptr(string).to_bytes())
    };
    let is = |number, word: &[u8]| text(number).is_some_and(|text| text.eq_ignore_ascii_case(word));
    is(1, b"synchronous") && text(2).is_some() && !is(2, b"NORMAL")
}

/// Sets `synchronous=NORMAL` on a new connection to a disk with [`crate::Sync::Normal`].
unsafe extern "C" fn weaken(
    connection: *mut ffi::sqlite3,
    _: *mut *mut c_char,
    _: *const ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: SQLite passes an open connection.
    let path = unsafe { path(ffi::sqlite3_db_filename(connection, c"main".as_ptr())) };
    let disk = path.and_then(Disk::of).map(|(disk, _)| disk);
    if disk.is_some_and(|disk| disk.is_normal()) {
        // A failure here is reported when the connection is used. SAFETY: the connection is open, and the statement is
        // a C string.
        unsafe {
            ffi::sqlite3_exec(
                connection,
                c"PRAGMA synchronous = NORMAL".as_ptr(),
                None,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            );
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn sector_size(file: *mut ffi::sqlite3_file) -> c_int {
    pass_on!(file, xSectorSize)
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    pass_on!(file, xDeviceCharacteristics)
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    page: c_int,
    size: c_int,
    extend: c_int,
    to: *mut *mut c_void,
) -> c_int {
    pass_on!(file, xShmMap, page, size, extend, to)
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    pass_on!(file, xShmLock, offset, count, flags)
}

unsafe extern "C" fn shm_barrier(file: *mut ffi::sqlite3_file) {
    // SAFETY: SQLite passes an open file.
    unsafe {
        let file = real(file);
        if let Some(barrier) = (*(*file).pMethods).xShmBarrier {
            barrier(file);
        }
    }
}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, delete: c_int) -> c_int {
    pass_on!(file, xShmUnmap, delete)
}
