// SPDX-License-Identifier: MIT

//! SFTP with russh and russh-sftp at the speed of the path.
//!
//!     cargo run --release -- [--stock] [--bdp BYTES] [--key FILE] [--accept-any-host] get|put USER@HOST:REMOTE LOCAL
//!
//! The window of a download, and what it asks for at once, is twice what "autobuf explain" says that the path holds. The
//! window of an upload is the server's, 2 MiB a channel: it goes over as many channels of one connection as hold that much.

use std::{env, error::Error, io::SeekFrom, process::Command, sync::Arc};

use russh::client::{self, Handle};
use russh::keys::{known_hosts, load_secret_key, PrivateKeyWithHashAlg, PublicKeyOrCertificate};
use russh_sftp::client::{fs::File, Config, SftpSession};
use russh_sftp::protocol::OpenFlags;
use tokio::io::{copy_buf, AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufReader};
use tokio::{fs, task::JoinSet};

type Failure = Box<dyn Error + Send + Sync>;

const PORT: u16 = 22;
const CHANNEL_BYTES: u64 = 2 << 20;
const MOST_CHANNELS: u64 = 10; // sshd_config(5): MaxSessions
const MOST_WINDOW_BYTES: u64 = 64 << 20;
const PACKET_BYTES: u32 = 34_000; // what every server takes: draft-ietf-secsh-filexfer-02, section 3
const BLOCK_BYTES: u64 = 32_000;

struct Host {
    name: String,
    any: bool,
}

impl client::Handler for Host {
    type Error = Failure;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, Failure> {
        match shown {
            _ if self.any => Ok(true),
            PublicKeyOrCertificate::PublicKey { key, .. } => Ok(known_hosts::check_known_hosts(&self.name, PORT, key)?),
            _ => Ok(false),
        }
    }
}

#[derive(Clone)]
struct Arguments {
    stock: bool,
    bdp: Option<u64>,
    key: String,
    any: bool,
    get: bool,
    user: String,
    host: String,
    remote: String,
    local: String,
}

fn arguments() -> Option<Arguments> {
    let mut words = Vec::new();
    let (mut stock, mut any, mut bdp) = (false, false, None);
    let mut key = format!("{}/.ssh/id_ed25519", env::var("HOME").unwrap_or_default());
    let mut left = env::args().skip(1);
    while let Some(word) = left.next() {
        match word.as_str() {
            "--stock" => stock = true,
            "--accept-any-host" => any = true,
            "--bdp" => bdp = Some(left.next()?.parse().ok()?),
            "--key" => key = left.next()?,
            _ => words.push(word),
        }
    }
    let [direction, place, local] = words.try_into().ok()?;
    let (user, rest) = place.split_once('@')?;
    let (host, remote) = rest.split_once(':')?;
    let get = direction == "get";
    let [user, host, remote] = [user, host, remote].map(String::from);
    (get || direction == "put").then_some(Arguments { stock, bdp, key, any, get, user, host, remote, local })
}

/// What the path holds; 0: not known.
fn bdp_bytes(host: &str) -> u64 {
    let said = Command::new("autobuf").args(["explain", "--json", host]).output().map(|done| done.stdout);
    let told: serde_json::Value = serde_json::from_slice(&said.unwrap_or_default()).unwrap_or_default();
    ["rx_bdp_bytes", "tx_bdp_bytes"].iter().filter_map(|name| told[name].as_u64()).max().unwrap_or(0)
}

async fn connect(args: &Arguments, window_bytes: Option<u64>) -> Result<Handle<Host>, Failure> {
    let mut config = client::Config::default();
    if let Some(bytes) = window_bytes {
        config.window_size = bytes as u32;
    }
    let known: Vec<_> = known_hosts::known_host_keys(&args.host, PORT)?.into_iter().map(|(_, key)| key.algorithm()).collect();
    if !args.any {
        // Ask the server for a key of a kind that known_hosts has.
        config.preferred.key.to_mut().retain(|kind| known.iter().any(|have| have == kind || have.clone().is_rsa() && kind.clone().is_rsa()));
    }
    let host = Host { name: args.host.clone(), any: args.any };
    let mut session = client::connect(Arc::new(config), (args.host.as_str(), PORT), host).await?;
    let hash = session.best_supported_rsa_hash().await?.flatten();
    let key = PrivateKeyWithHashAlg::new(Arc::new(load_secret_key(&args.key, None)?), hash);
    if !session.authenticate_publickey(&args.user, key).await?.success() {
        return Err("the server does not accept this key".into());
    }
    Ok(session)
}

/// A file on a channel of its own.
async fn open(session: &Handle<Host>, args: &Arguments, flags: OpenFlags, config: Config) -> Result<File, Failure> {
    let channel = session.channel_open_session().await?;
    channel.request_subsystem(true, "sftp").await?;
    let sftp = SftpSession::new_with_config(channel.into_stream(), config).await?;
    Ok(sftp.open_with_flags(&args.remote, flags).await?)
}

async fn put_part(mut far: File, local: String, start: u64, length: u64) -> Result<(), Failure> {
    let mut near = fs::File::open(local).await?;
    near.seek(SeekFrom::Start(start)).await?;
    far.seek(SeekFrom::Start(start)).await?;
    let moved = copy_buf(&mut BufReader::with_capacity(BLOCK_BYTES as usize, near.take(length)), &mut far).await?;
    far.close().await?;
    if moved == length { Ok(()) } else { Err("the file became shorter".into()) }
}

async fn put(session: Handle<Host>, args: Arguments, config: Config, bytes: u64) -> Result<(), Failure> {
    let near = fs::File::open(&args.local).await?.metadata().await?; // or what is there would be emptied in vain
    if near.is_dir() {
        return Err("a folder cannot be sent".into());
    }
    let size = near.len();
    let channels = if args.stock { 1 } else { bytes.min(size).div_ceil(CHANNEL_BYTES).clamp(1, MOST_CHANNELS) };
    let far = open(&session, &args, OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE, config.clone()).await?;
    let session = Arc::new(session);
    let part = size.div_ceil(channels);
    let mut parts = JoinSet::new();
    parts.spawn(put_part(far, args.local.clone(), 0, part.min(size)));
    for start in (1..channels).map(|i| i * part) {
        let (session, args, config) = (session.clone(), args.clone(), config.clone());
        parts.spawn(async move {
            let far = open(&session, &args, OpenFlags::WRITE, config).await?;
            put_part(far, args.local, start, part.min(size - start)).await
        });
    }
    while let Some(done) = parts.join_next().await {
        done??;
    }
    Ok(())
}

async fn get(session: Handle<Host>, args: Arguments, config: Config) -> Result<(), Failure> {
    let far = open(&session, &args, OpenFlags::READ, config).await?;
    let mut near = fs::File::create(&args.local).await?;
    copy_buf(&mut BufReader::with_capacity(BLOCK_BYTES as usize, far), &mut near).await?;
    Ok(near.flush().await?)
}

async fn run(args: Arguments) -> Result<(), Failure> {
    let mut config = Config::default();
    let bdp = if args.stock { 0 } else { args.bdp.unwrap_or_else(|| bdp_bytes(&args.host)) };
    let bytes = (2 * bdp).clamp(CHANNEL_BYTES, MOST_WINDOW_BYTES);
    if !args.stock {
        config.max_packet_len = PACKET_BYTES;
        config.max_write_packet_len = PACKET_BYTES;
        config.max_concurrent_reads = (bytes / BLOCK_BYTES) as usize;
        config.max_concurrent_writes = (CHANNEL_BYTES / BLOCK_BYTES) as usize;
        config.request_timeout_secs = 60; // a full queue may hold an answer for longer than its 10 s
    }
    let session = connect(&args, (!args.stock).then_some(bytes)).await?;
    if args.get {
        get(session, args, config).await
    } else {
        put(session, args, config, bytes).await
    }
}

#[tokio::main]
async fn main() {
    let Some(args) = arguments() else {
        eprintln!("get|put USER@HOST:REMOTE LOCAL");
        std::process::exit(2);
    };
    if let Err(error) = run(args).await {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
