// `svc-sdk/core/lmdb`: a store of keys, values and counters on this host's disk.
export { LmdbKeyValueStore } from '@svc/core/lmdb'
