// Joins the objects of one file. Objects may overlap, which a lost state of the upload leaves, and their bytes are
// checked against the hash in their key.

import { createHash } from 'node:crypto'
import { closeSync, fsyncSync, mkdirSync, openSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type ObjectName, parseObjectKey } from '../upload/source.js'
import { download, type ObjectSource } from './object-source.js'

const CONCURRENT = 4

export interface NamedObject extends ObjectName {
  readonly key: string
}

export interface JoinResult {
  readonly bytes: number
  readonly objects: number
  /** What is missing or wrong. */
  readonly problems: readonly string[]
}

/** The objects below `prefix` by the file that they belong to. */
export async function objectsByFile(
  source: ObjectSource,
  prefix: string,
): Promise<ReadonlyMap<string, readonly NamedObject[]>> {
  const files = new Map<string, NamedObject[]>()
  for await (const { key } of source.list(prefix)) {
    const name = parseObjectKey(key)
    if (name === undefined) continue
    const objects = files.get(name.file) ?? []
    files.set(name.file, objects)
    objects.push({ ...name, key })
  }
  return files
}

/**
 * Writes the file at `path` below `dir`.
 *
 * @param belongs whether these bytes are of this log: logs of one client share the names of their daily files.
 */
export async function joinFile(
  source: ObjectSource,
  objects: readonly NamedObject[],
  { dir, path }: { readonly dir: string; readonly path: string },
  belongs: (bytes: Buffer) => boolean,
): Promise<JoinResult> {
  const problems: string[] = []
  const waiting = [...objects].sort((a, b) => a.start - b.start || b.end - a.end)
  const written: NamedObject[] = []
  mkdirSync(join(dir, dirname(path)), { recursive: true, mode: 0o700 })
  const fd = openSync(join(dir, path), 'wx', 0o600)
  const worker = async () => {
    for (let object = waiting.shift(); object !== undefined; object = waiting.shift()) {
      const { key, start, end, digest } = object
      const bytes = await download(source, key)
      const hash = createHash('sha256').update(bytes).digest('hex')
      if (bytes.length !== end - start || !hash.startsWith(digest)) {
        problems.push(`${key} does not have the bytes that its key names`)
      } else if (belongs(bytes)) {
        writeAll(fd, bytes, start)
        written.push(object)
      }
    }
  }
  try {
    await Promise.all(Array.from({ length: CONCURRENT }, worker))
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  let end = 0
  for (const object of written.sort((a, b) => a.start - b.start)) {
    if (object.start > end)
      problems.push(`${path}: the bytes from ${end} to ${object.start} are in no object`)
    end = Math.max(end, object.end)
  }
  return { bytes: end, objects: written.length, problems }
}

function writeAll(fd: number, bytes: Buffer, position: number): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at, bytes.length - at, position + at)
}
