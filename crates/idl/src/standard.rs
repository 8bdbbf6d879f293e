//! The standard modules that come with the ORB, from `idl/`: a link to the repository's
//! folder of that name, so that a package of this crate has the files.

macro_rules! files {
    ($($name:literal)*) => {
        /// Names of the standard files, for `#include`.
        pub const FILES: &[&str] = &[$($name),*];

        /// The text of a standard file, for [`Options::embedded`](crate::Options): what `#include
        /// <orb.idl>` finds where no directory has it.
        pub fn file(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some(include_str!(concat!("../idl/", $name))),)*
                _ => None,
            }
        }
    };
}

files!(
    "orb.idl"
    "CosNaming.idl"
    "CosLwLog.idl"
    "InterfaceRepository.idl"
    "TimeBase.idl"
    "IOP.idl"
    "GIOP.idl"
    "CONV_FRAME.idl"
    "Messaging.idl"
    "PortableServer.idl"
    "BiDirPolicy.idl"
    "RTCORBA.idl"
    "RTPortableServer.idl"
    "RTCosScheduling.idl"
    "RtecBase.idl"
    "RtecEventComm.idl"
    "RtecEventChannelAdmin.idl"
    "CosEventComm.idl"
    "CosEventChannelAdmin.idl"
    "IsorbEvent.idl"
    "IsorbImplementationRepository.idl"
    "IsorbRtecEventChannelAdmin.idl"
    "ReflectiveMemory.idl"
    "RtecScheduler.idl"
    "RtecSchedulerTao1.idl"
);

#[cfg(test)]
mod tests {
    use crate::{MemoryLoader, Options, compile_with};

    #[test]
    fn all_are_good_idl() {
        for name in super::FILES {
            let options = Options { embedded: Some(super::file), ..Options::default() };
            let loader = MemoryLoader::new().with("main.idl", format!("#include <{name}>\n"));
            let outcome = compile_with(&options, &loader, "main.idl".as_ref());
            assert!(outcome.spec.is_some(), "{name}: {}", outcome.render(false));
        }
    }

    #[test]
    fn none_is_forgotten() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/idl");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.ends_with(".idl") || super::FILES.contains(&&*name), "{name} is not embedded");
        }
    }
}
