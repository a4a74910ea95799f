// The control plane's listing of the objects in its store.

import { defined, isJsonObject } from '@svc/core/json'
import type { ControlPlane } from './control-plane.js'
import { UploadError } from './error.js'

const PATH = '/api/svc/objects'

export interface StoredObject {
  readonly key: string
  /** Bytes. */
  readonly contentLength: number
  /** SHA-256 of its bytes as the store has computed it, base64. */
  readonly checksumSha256?: string
}

/**
 * The objects whose keys begin with `prefix`, in the order of their keys. Ends with an `UploadError`.
 *
 * @param query `checksums`: asks for checksums, if the store has them.
 * @param onListed is called for each page.
 */
export async function* storedObjects(
  ask: ControlPlane['ask'],
  query: { readonly prefix: string; readonly checksums?: boolean },
  signal: AbortSignal,
  onListed: () => void = () => undefined,
): AsyncGenerator<StoredObject> {
  for (let after: string | undefined; ; ) {
    const page = { ...query, ...defined({ after }) }
    const { objects, next } = await ask(PATH, page, signal)
    if (!Array.isArray(objects) || !objects.every(isStoredObject)) {
      throw new UploadError('upload_failed', `${PATH} responded without a list of objects`)
    }
    onListed()
    yield* objects
    if (typeof next !== 'string') return
    if (after !== undefined && next <= after) {
      throw new UploadError('upload_failed', `${PATH} responded with the same page again`)
    }
    after = next
  }
}

function isStoredObject(value: unknown): value is StoredObject {
  if (!isJsonObject(value)) return false
  const { key, contentLength, checksumSha256 } = value
  const isSize = Number.isSafeInteger(contentLength)
  return typeof key === 'string' && isSize && ['string', 'undefined'].includes(typeof checksumSha256)
}
