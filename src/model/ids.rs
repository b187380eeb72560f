//! The keys rows are known by inside Berth. Clients never see them; they see UUIDs and names.

macro_rules! key {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);
    };
}

key! {
    /// A resource provider. Never reused: a deleted provider's key stays dead.
    ProviderId(i64)
}
key! {
    /// A resource class. Standard classes have their position in os-resource-classes, so ordering
    /// by key is the order the reference lists classes in.
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
