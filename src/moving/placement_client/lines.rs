//! Streaming responses, read line by line.

use std::time::Duration;

use tokio::time::timeout;

use super::error::Error;
use crate::http_client::Failure;

/// The lines of a response.
#[derive(Debug)]
pub struct Lines {
    pub(super) response: reqwest::Response,
    /// Method and URL of the request.
    pub(super) request: String,
    /// Bytes received of an incomplete line.
    pub(super) read: Vec<u8>,
    /// Maximum length of a line, in bytes.
    pub(super) line_max: usize,
    /// Maximum time without data.
    pub(super) silence_max: Duration,
}

impl Lines {
    /// The next line, without its end; `None` at the end of the response.
    ///
    /// # Errors
    /// The response breaks off, times out, or has a line that is too long.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                return Ok(Some(line.trim_end().to_owned()));
            }
            if self.read.len() > self.line_max {
                return Err(self.failed(format!("a line has more than {} bytes", self.line_max)));
            }
            match timeout(self.silence_max, self.response.chunk()).await {
                Ok(Ok(Some(part))) => self.read.extend_from_slice(&part),
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(error)) => return Err(self.failed(Failure::from(error).to_string())),
                Err(_) => {
                    let seconds = self.silence_max.as_secs();
                    return Err(self.failed(format!("no data for {seconds} s")));
                }
            }
        }
    }

    fn failed(&self, why: String) -> Error {
        Error::NoAnswer { request: self.request.clone(), why }
    }
}
