// Confirms that the store has a file, before retention removes it here: its objects are listed and compared with the bytes
// of the file.

import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import type { ControlPlane } from './control-plane.js'
import { UploadError } from './error.js'
import { fixedRange } from './range-reader.js'
import type { FoundFile } from './scan.js'
import { keyPrefix, objectKey, parseObjectKey } from './source.js'
import { storedObjects } from './stored-objects.js'
import type { UploadThrottle } from './throttle.js'

export interface ConfirmParts {
  readonly dir: string
  readonly controlPlane: ControlPlane
  readonly throttle: UploadThrottle
}

/**
 * Whether every byte of the file is in an object of the store with the name, the length and, where the control plane gives
 * one, the checksum of the bytes here. `unsupported`: the control plane lists no objects.
 */
export async function confirmFile(
  { dir, controlPlane, throttle }: ConfirmParts,
  { source, size }: FoundFile,
  signal: AbortSignal,
): Promise<'confirmed' | 'missing' | 'unsupported'> {
  const metadata = await controlPlane.metadata(signal)
  const prefix = keyPrefix(metadata, source)
  const file = openSync(join(dir, source.path), 'r')
  let confirmed = 0
  try {
    const objects = []
    for await (const object of storedObjects(controlPlane, { prefix, checksums: true }, signal)) {
      const name = parseObjectKey(object.key)
      if (name !== undefined && name.end <= size) objects.push({ ...object, ...name })
    }
    // Of overlapping objects, which a lost state leaves, the longest first.
    objects.sort((a, b) => a.start - b.start || b.end - a.end)
    for (const { key, start, end, contentLength, checksumSha256 } of objects) {
      if (start > confirmed) break
      if (end <= confirmed) continue
      const range = await fixedRange(file, start, end, throttle)
      const expected = Buffer.from(range.sha256, 'hex').toString('base64')
      const isEqual = key === objectKey(metadata, source, range) && contentLength === end - start
      if (isEqual && (checksumSha256 ?? expected) === expected) confirmed = end
    }
  } catch (error) {
    const isUnsupported = error instanceof UploadError && [404, 405, 501].includes(error.status ?? 0)
    if (!isUnsupported) throw error
    return 'unsupported'
  } finally {
    closeSync(file)
  }
  return confirmed === size ? 'confirmed' : 'missing'
}
