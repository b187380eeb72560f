//! Lists of addresses that may be switched off by the word `none`.

use std::str::FromStr;

use crate::http::edge::listener::Endpoint;

/// The word for no address at all.
pub(super) const NONE: &str = "none";

/// An address, or the word for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressOrNone {
    /// Nothing is served.
    None,
    /// The address.
    At(Endpoint),
}

impl FromStr for AddressOrNone {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == NONE {
            return Ok(Self::None);
        }
        text.parse().map(Self::At).map_err(|why| format!("{why} nor the word {NONE}"))
    }
}

/// Returns the addresses of an option: none if it is missing or `none`.
///
/// # Errors
/// `none` stands with others.
pub fn endpoints<'l>(
    option: &str,
    listen: &'l [AddressOrNone],
) -> Result<Vec<&'l Endpoint>, String> {
    let endpoints = listen.iter().filter_map(|address| match address {
        AddressOrNone::None => None,
        AddressOrNone::At(endpoint) => Some(endpoint),
    });
    let endpoints: Vec<&Endpoint> = endpoints.collect();
    if endpoints.is_empty() || endpoints.len() == listen.len() {
        Ok(endpoints)
    } else {
        Err(format!("{option}: {NONE} must stand alone"))
    }
}
