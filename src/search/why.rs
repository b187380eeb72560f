//! Why nothing fits.
