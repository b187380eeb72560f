//! Finds where each request of a connection ends.
//!
//! hyper parses the requests, but it accepts a head with both `Content-Length` and
//! `Transfer-Encoding` and drops the length, so no later code can refuse such a request. It also
//! does not report whether a client that half-closes has sent its whole request. So this module
//! follows the bytes as well: a head is counted only if every HTTP parser would find the same end
//! of its request, and a request from hyper without a counted head is refused.

/// Maximum number of bytes kept of a line. All lines that affect framing are shorter; a longer one
/// is ambiguous.
const LINE_BYTES_MAX: usize = 256;
/// Length of the line end after a chunk's data.
const CHUNK_END: u64 = 2;

/// The framing of the requests of one connection.
#[derive(Debug, Default)]
pub(in crate::http) struct Framing {
    part: Part,
    /// The current line, without its end.
    line: Vec<u8>,
    /// Whether the current line ends with a carriage return, even if it is too long to be kept.
    ends_with_return: bool,
}

/// The next part of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// The first line, or empty lines before it.
    #[default]
    Start,
    Header(Lengths),
    /// Remaining bytes of a body with `Content-Length`.
    Body(u64),
    /// The line with a chunk's size.
    ChunkSize,
    /// Remaining bytes of a chunk, with its line end.
    Chunk(u64),
    /// A header after the last chunk.
    Trailer,
    /// The framing is ambiguous. The connection will be closed.
    Unclear,
}

/// The headers that determine the end of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lengths {
    content_length: Option<u64>,
    is_chunked: bool,
    is_unclear: bool,
}

impl Lengths {
    fn read(mut self, line: &[u8]) -> Self {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else { return self };
        let value = value.trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = decimal(value).filter(|_| line.len() < LINE_BYTES_MAX);
            let is_same = self.content_length.is_none_or(|other| Some(other) == length);
            self.is_unclear |= length.is_none() || !is_same;
            self.content_length = length;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            // No other coding is supported, and a repeated one means two codings.
            let is_chunked = value.eq_ignore_ascii_case(b"chunked") && line.len() < LINE_BYTES_MAX;
            self.is_unclear |= self.is_chunked || !is_chunked;
            self.is_chunked = true;
        }
        self
    }

    /// Returns the part after the head.
    fn body(self) -> Part {
        match (self.content_length, self.is_chunked) {
            _ if self.is_unclear => Part::Unclear,
            (Some(_), true) => Part::Unclear,
            (None, true) => Part::ChunkSize,
            (None | Some(0), false) => Part::Start,
            (Some(length), false) => Part::Body(length),
        }
    }
}

impl Framing {
    /// Follows received bytes. Returns the number of heads that end in them and have unambiguous
    /// framing.
    pub(in crate::http) fn follow(&mut self, mut bytes: &[u8]) -> usize {
        let mut heads = 0;
        while !bytes.is_empty() {
            bytes = match &mut self.part {
                Part::Unclear => return heads,
                Part::Body(left) | Part::Chunk(left) => {
                    let rest = skip(bytes, left);
                    if *left == 0 {
                        let is_body = matches!(self.part, Part::Body(_));
                        self.part = if is_body { Part::Start } else { Part::ChunkSize };
                    }
                    rest
                }
                Part::Start | Part::Header(_) | Part::ChunkSize | Part::Trailer => {
                    let Some(rest) = self.read_line(bytes) else { return heads };
                    heads += usize::from(self.end_line());
                    rest
                }
            };
        }
        heads
    }

    /// Returns whether a body is incomplete. One with ambiguous framing is refused, not waited for.
    pub(in crate::http) fn is_within_body(&self) -> bool {
        match self.part {
            Part::Body(_) | Part::ChunkSize | Part::Chunk(_) | Part::Trailer => true,
            Part::Start | Part::Header(_) | Part::Unclear => false,
        }
    }

    /// Adds bytes to the current line. Returns the bytes after its end; `None` if it has not ended.
    fn read_line<'b>(&mut self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
        let room = LINE_BYTES_MAX - self.line.len();
        let part = parts.next()?;
        self.line.extend(part.iter().take(room));
        self.ends_with_return = part.last().map_or(self.ends_with_return, |byte| *byte == b'\r');
        parts.next()
    }

    /// Moves on after a line. Returns whether it ended a head with unambiguous framing.
    fn end_line(&mut self) -> bool {
        let ([line @ .., b'\r'] | line) = self.line.as_slice();
        let mut is_head = false;
        self.part = match self.part {
            // A bare line feed ends a line of a head. In chunked bodies parsers differ, and hyper
            // reads on.
            Part::ChunkSize | Part::Trailer if !self.ends_with_return => Part::Unclear,
            Part::Start | Part::Trailer if line.is_empty() => Part::Start,
            Part::Start => Part::Header(Lengths::default()),
            Part::Header(lengths) if line.is_empty() => {
                let body = lengths.body();
                is_head = body != Part::Unclear;
                body
            }
            Part::Header(lengths) => Part::Header(lengths.read(line)),
            Part::ChunkSize => match chunk_size(line) {
                Some(0) => Part::Trailer,
                Some(size) => size.checked_add(CHUNK_END).map_or(Part::Unclear, Part::Chunk),
                None => Part::Unclear,
            },
            other @ (Part::Trailer | Part::Body(_) | Part::Chunk(_) | Part::Unclear) => other,
        };
        self.line.clear();
        self.ends_with_return = false;
        is_head
    }
}

/// Skips at most `left` bytes, and returns the rest.
fn skip<'b>(bytes: &'b [u8], left: &mut u64) -> &'b [u8] {
    let split = usize::try_from(*left).ok().and_then(|left| bytes.split_at_checked(left));
    let Some((_, rest)) = split else {
        *left = u64::try_from(bytes.len()).map_or(0, |here| left.saturating_sub(here));
        return &[];
    };
    *left = 0;
    rest
}

/// Parses a number of digits only.
fn decimal(text: &[u8]) -> Option<u64> {
    let text = str::from_utf8(text).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Parses the size in a chunk's first line, if the line was kept completely.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let size = line.split(|byte| !byte.is_ascii_hexdigit()).next()?;
    let size = Some(size).filter(|size| size.len() < LINE_BYTES_MAX)?;
    u64::from_str_radix(str::from_utf8(size).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::{Framing, LINE_BYTES_MAX, Part};

    const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    fn post(headers: &str, body: &str) -> String {
        format!("POST / HTTP/1.1\r\nhost: x\r\n{headers}\r\n{body}")
    }

    /// Returns the number of heads and whether the last request is complete, however the bytes are
    /// split.
    fn followed(text: &str) -> (usize, bool) {
        let bytes = text.as_bytes();
        let in_parts = |length: usize| {
            let mut framing = Framing::default();
            let heads = bytes.chunks(length).map(|part| framing.follow(part)).sum();
            (heads, framing.part == Part::Start && framing.line.is_empty())
        };
        let at_once = in_parts(bytes.len());
        for length in 1..=40 {
            assert_eq!(in_parts(length), at_once, "in parts of {length}: {text:?}");
        }
        at_once
    }

    #[test]
    fn each_request_ends_where_its_head_says() {
        let chunked = "transfer-encoding: chunked\r\n";
        let chunks = "5;ext=\"x\"\r\nGET /\r\nA\r\n0123456789\r\n0\r\ntrailer: x\r\n\r\n";
        for request in [
            GET.to_owned(),
            format!("\r\n\n{GET}"),
            GET.replace('\r', ""),
            post("Content-Length: 5\r\n", "\r\n\r\n\n"),
            post("content-length:0\r\n", ""),
            post("content-length: 2 \r\ncontent-length:\t2\r\n", "{}"),
            post("Transfer-Encoding:  Chunked\r\n", chunks),
            post(chunked, "0\r\n\r\n"),
            post(&format!("cookie: {}\r\n{chunked}", "x".repeat(100_000)), chunks),
            post("x-content-length: 7\r\nx: content-length: 7\r\n", ""),
        ] {
            assert_eq!(followed(&request), (1, true), "{request:.200}");
            assert_eq!(followed(&format!("{request}{request}{GET}")), (3, true), "{request:.200}");
            let short = &request[..request.len() - 1];
            assert!(!followed(short).1, "{request:.200}");
        }
    }

    #[test]
    fn a_head_that_two_parsers_read_differently_counts_for_nothing() {
        for headers in [
            "content-length: 5\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
            "transfer-encoding: chunked\r\nx: y\r\ncontent-length: 0\r\n",
            "transfer-encoding: gzip, chunked\r\n",
            "transfer-encoding: chunked, chunked\r\n",
            "transfer-encoding: identity, chunked\r\n",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: identity\r\n",
            "transfer-encoding:\r\n",
            "transfer-encoding: \"chunked\"\r\n",
            "content-length: 5\r\ncontent-length: 0\r\n",
            "content-length: +5\r\n",
            "content-length: 5, 5\r\n",
            "content-length:\r\n",
            "content-length: 99999999999999999999\r\n",
        ] {
            assert_eq!(
                followed(&post(headers, &format!("0\r\n\r\n{GET}"))),
                (0, false),
                "{headers}"
            );
        }
        let spaces = " ".repeat(300);
        for headers in [
            format!("transfer-encoding:{spaces}chunked\r\n"),
            format!("content-length:{spaces}5\r\n"),
        ] {
            assert_eq!(followed(&post(&headers, GET)), (0, false));
        }
        let long = "0".repeat(LINE_BYTES_MAX);
        for end in [&format!("{long}5\r\n"), "0\n", "0\r\nx: y\n", &format!("0\r\nx: {long}\n")] {
            let request = post("transfer-encoding: chunked\r\n", &format!("{end}\r\n{GET}"));
            assert_eq!(followed(&request), (1, false), "{end}");
        }
        for size in ["", "x", "-1", "fffffffffffffffff", "ffffffffffffffff"] {
            let chunks = format!("{size}\r\n{GET}");
            let request = post("transfer-encoding: chunked\r\n", &chunks);
            assert_eq!(followed(&request), (1, false), "{size}");
        }
    }
}
