//! Standard input and output of this process, connected to the client that started it.
//!
//! Pipes and sockets are used without a helper thread, which would delay each message.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Opens standard input for asynchronous reading.
pub fn input() -> io::Result<Pin<Box<dyn AsyncRead + Send>>> {
    Ok(match end(std::io::stdin())? {
        End::Pipe(fd) => Box::pin(pipe::Receiver::from_owned_fd(fd)?),
        End::Socket(stream) => Box::pin(stream),
        End::Other => Box::pin(tokio::io::stdin()),
    })
}

/// Opens standard output for asynchronous writing.
pub fn output() -> io::Result<Pin<Box<dyn AsyncWrite + Send>>> {
    // If both are the same file, non-blocking mode would also apply to standard error, where writes could then fail.
    if is_same_as_stderr() {
        return Ok(Box::pin(tokio::io::stdout()));
    }
    Ok(match end(std::io::stdout())? {
        End::Pipe(fd) => Box::pin(pipe::Sender::from_owned_fd(fd)?),
        End::Socket(stream) => Box::pin(stream),
        End::Other => Box::pin(tokio::io::stdout()),
    })
}

enum End {
    Pipe(OwnedFd),
    Socket(UnixStream),
    Other,
}

fn end(stream: impl AsFd) -> io::Result<End> {
    let fd = stream.as_fd().try_clone_to_owned()?;
    let file = File::from(fd);
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() {
        return Ok(End::Pipe(file.into()));
    }
    if kind.is_socket() {
        let stream = std::os::unix::net::UnixStream::from(OwnedFd::from(file));
        stream.set_nonblocking(true)?;
        return Ok(match UnixStream::from_std(stream) {
            Ok(stream) => End::Socket(stream),
            Err(_) => End::Other,
        });
    }
    Ok(End::Other)
}

fn is_same_as_stderr() -> bool {
    let place = |stream: std::os::fd::BorrowedFd<'_>| {
        let file = File::from(stream.try_clone_to_owned().ok()?);
        let found = file.metadata().ok()?;
        Some((found.dev(), found.ino()))
    };
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    place(stdout.as_fd()) == place(stderr.as_fd())
}
