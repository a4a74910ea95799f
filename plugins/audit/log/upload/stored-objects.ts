// What the control plane says of the objects of its store.

import { isJsonObject } from '@svc/core/json'
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

export class ObjectListing {
  readonly #controlPlane: Pick<ControlPlane, 'ask'>
  readonly #onListed: () => void

  /** `onListed` is called for each page. */
  constructor(controlPlane: Pick<ControlPlane, 'ask'>, onListed: () => void = () => undefined) {
    this.#controlPlane = controlPlane
    this.#onListed = onListed
  }

  /**
   * The objects whose keys begin with `prefix`, in the order of their keys. Ends with an `UploadError`.
   *
   * @param query `checksums`: asks for them, where the store has them.
   */
  async *objects(
    query: { readonly prefix: string; readonly checksums?: boolean },
    signal: AbortSignal,
  ): AsyncGenerator<StoredObject> {
    for (let after: string | undefined; ; ) {
      const page = { ...query, ...(after === undefined ? {} : { after }) }
      const { objects, next } = await this.#controlPlane.ask(PATH, page, signal)
      if (!Array.isArray(objects) || !objects.every(isStoredObject)) {
        throw new UploadError('upload_failed', `${PATH} answered without a list of objects`)
      }
      this.#onListed()
      yield* objects
      if (typeof next !== 'string') return
      if (after !== undefined && next <= after) {
        throw new UploadError('upload_failed', `${PATH} answered with the same page again`)
      }
      after = next
    }
  }
}

function isStoredObject(value: unknown): value is StoredObject {
  if (!isJsonObject(value)) return false
  const { key, contentLength, checksumSha256 } = value
  const isSize = Number.isSafeInteger(contentLength)
  return typeof key === 'string' && isSize && ['string', 'undefined'].includes(typeof checksumSha256)
}
