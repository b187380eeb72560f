//! Internal keys of rows. Clients see UUIDs and names instead.

macro_rules! key {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);
    };
}

key! {
    /// A resource provider. The key of a deleted provider is never used again.
    ProviderId(i64)
}
key! {
    /// A resource class. The key of a standard class is its position in os-resource-classes, so the order of
    /// keys is the order in which the reference lists classes.
    ClassId(i32)
}
key! {
    /// A trait; standard ones come first.
    TraitId(i32)
}
key! {
    /// A consumer.
    ConsumerId(i64)
}
