//! Where each request of a connection ends, found in the bytes as they come.
//!
//! hyper reads the requests, but it keeps two things to itself. It accepts a head that has both `Content-Length` and
//! `Transfer-Encoding`, and drops the length, so that nobody behind it can refuse such a request. And it does not say
//! whether a client that sends nothing more has sent its request to the end. So the bytes are followed here as well: a
//! head is counted only if every HTTP parser finds the same end of its request, and hyper's request without a counted
//! head is refused.

/// Maximum number of bytes of a line that are looked at. The longest lines that matter are short; a longer one that
/// matters is not clear.
const LINE_BYTES_MAX: usize = 256;
/// Bytes of the line end behind the data of a chunk.
const CHUNK_END: u64 = 2;

/// The framing of the requests of one connection.
#[derive(Debug, Default)]
pub(in crate::http) struct Framing {
    part: Part,
    /// The current line, without its end.
    line: Vec<u8>,
    /// Whether the last byte of the current line is a carriage return, also where the line is too long to be kept.
    ends_with_return: bool,
}

/// The part of a request that comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// The first line, or empty lines before it.
    #[default]
    Start,
    /// The next header.
    Header(Lengths),
    /// So many bytes of a body that says its length.
    Body(u64),
    /// The line with the size of a chunk.
    ChunkSize,
    /// So many bytes of a chunk with its line end.
    Chunk(u64),
    /// A header after the last chunk.
    Trailer,
    /// Nobody knows. The connection ends.
    Unclear,
}

/// The headers of a head that say where its body ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lengths {
    content_length: Option<u64>,
    is_chunked: bool,
    is_unclear: bool,
}

impl Lengths {
    /// Reads a header.
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
            // No other coding is known here, and two that say the same are two codings.
            let is_chunked = value.eq_ignore_ascii_case(b"chunked") && line.len() < LINE_BYTES_MAX;
            self.is_unclear |= self.is_chunked || !is_chunked;
            self.is_chunked = true;
        }
        self
    }

    /// The part behind the head.
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
    /// Follows the bytes that have come, and returns the number of heads that end in them and leave no doubt about
    /// where their requests end.
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

    /// Whether the last body has begun and not ended. One without a clear end is refused, not waited for.
    pub(in crate::http) fn is_within_body(&self) -> bool {
        match self.part {
            Part::Body(_) | Part::ChunkSize | Part::Chunk(_) | Part::Trailer => true,
            Part::Start | Part::Header(_) | Part::Unclear => false,
        }
    }

    /// Adds bytes to the current line. Returns those behind its end; `None` if it has not ended.
    fn read_line<'b>(&mut self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
        let room = LINE_BYTES_MAX - self.line.len();
        let part = parts.next()?;
        self.line.extend(part.iter().take(room));
        self.ends_with_return = part.last().map_or(self.ends_with_return, |byte| *byte == b'\r');
        parts.next()
    }

    /// Goes on behind a line. Returns whether a head ended with it whose request has a clear end.
    fn end_line(&mut self) -> bool {
        let ([line @ .., b'\r'] | line) = self.line.as_slice();
        let mut is_head = false;
        self.part = match self.part {
            // A bare line feed ends a line of a head. Among chunks parsers differ, and hyper reads on.
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

/// Skips as many bytes as are left, and returns those behind them.
fn skip<'b>(bytes: &'b [u8], left: &mut u64) -> &'b [u8] {
    let split = usize::try_from(*left).ok().and_then(|left| bytes.split_at_checked(left));
    let Some((_, rest)) = split else {
        *left = u64::try_from(bytes.len()).map_or(0, |here| left.saturating_sub(here));
        return &[];
    };
    *left = 0;
    rest
}

/// A number of digits only.
fn decimal(text: &[u8]) -> Option<u64> {
    let text = str::from_utf8(text).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The size in the first line of a chunk, before its extensions, if it has been kept to its end.
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

    /// The number of heads, and whether the last request is whole, however the bytes are cut.
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
