// The hashing thread. It reads through the event loop's handle, which is the process's, and synchronously, because
// asynchronous reads use the process's thread pool, which the appends' `fdatasync` needs.

import { readSync } from 'node:fs'
import { parentPort } from 'node:worker_threads'
import type { FileSystem } from '../files/file-system.js'
import { lowerPriority } from '../thread/priority.js'
import { hashPiece } from './hash-piece.js'
import type { HashingReply, HashingRequest } from './hashing-thread.js'

const port: Pick<FileSystem, 'read'> = {
  read: (fd, buffer, offset, length, position, done) =>
    done(null, readSync(fd, buffer, offset, length, position)),
}

lowerPriority()

parentPort?.on('message', ({ fd, source }: HashingRequest) => {
  hashPiece(port, fd, source).then(
    (piece) => reply(piece, [piece.leaves.buffer, piece.roots.buffer]),
    () => reply(undefined, []),
  )
})

function reply(piece: HashingReply, transferred: ArrayBuffer[]): void {
  parentPort?.postMessage(piece, transferred)
}
