//! The reference's configuration (`placement.conf`, in the language of oslo.config) as options of
//! Berth: what carries over, what does not and why.
//!
//! [`sources`] alone reads files and the environment, and [`output`] alone writes. [`ini`] reads a file's lines, [`settings`]
//! finds the value that holds for an option and resolves references to others ([`interpolate`],
//! [`values`]), [`table`] says what becomes of each option, [`convert`] does it, and [`render`]
//! writes it down.

mod conversion;
mod convert;
mod database;
mod ini;
mod interpolate;
mod keystone;
mod location;
mod logs;
pub mod output;
mod policy;
mod remark;
mod render;
mod settings;
pub mod sources;
pub mod table;
mod values;

pub use conversion::Overrides;
pub use location::Location;
pub use remark::{Level, Remark};
pub use sources::{Sources, Unreadable};

/// What an import comes to.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Berth's configuration file. It has the secrets of the files it was made from.
    pub toml: String,
    /// What did not carry over or needs a look, in the order of the options. No secrets.
    pub remarks: Vec<Remark>,
}

/// Makes Berth's configuration of the reference's.
///
/// # Errors
/// What must not be dropped and cannot be carried over, or cannot be read; each says what to do.
pub fn import(sources: &Sources, overrides: &Overrides) -> Result<Imported, Vec<Remark>> {
    let settings = settings::Settings::read(sources).map_err(|fault| vec![fault])?;
    let outcome = convert::convert(&settings, sources, overrides);
    if outcome.remarks.iter().any(|remark| remark.level == Level::Error) {
        return Err(outcome.remarks);
    }
    let toml = render::toml(sources, &outcome);
    Ok(Imported { toml, remarks: outcome.remarks })
}
