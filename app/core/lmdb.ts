// `svc-sdk/core/lmdb`: the client of LMDB.
export { LmdbStore } from '@svc/core/lmdb'
