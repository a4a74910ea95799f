// Where the objects of an uploaded log are read from.

import { messageOf } from '@svc/core/json'
import { AuditError } from '../format/errors.js'
import { ControlPlane } from '../upload/control-plane.js'
import type { PresignConfig } from '../upload/presign.js'
import { ownerPrefix } from '../upload/source.js'
import { ObjectListing, type StoredObject } from '../upload/stored-objects.js'

export interface ObjectSource {
  /** What the keys of all objects of the owner begin with. */
  prefix(): Promise<string>
  /** In the order of their keys. */
  list(prefix: string): AsyncIterable<Pick<StoredObject, 'key'>>
  /** A presigned URL. */
  url(
    key: string,
  ): Promise<{ readonly url: URL | string; readonly headers: Readonly<Record<string, string>> }>
}

/** The objects that a control plane lists, of the owner of its key. */
export class ControlPlaneSource implements ObjectSource {
  readonly #controlPlane: ControlPlane
  readonly #listing: ObjectListing
  readonly #signal = new AbortController().signal

  constructor(config: PresignConfig) {
    this.#controlPlane = new ControlPlane(config, 0)
    this.#listing = new ObjectListing(this.#controlPlane)
  }

  async prefix(): Promise<string> {
    return ownerPrefix(await this.#controlPlane.metadata(this.#signal))
  }

  list(prefix: string): AsyncIterable<StoredObject> {
    return this.#listing.objects({ prefix }, this.#signal)
  }

  url(key: string) {
    return this.#controlPlane.presigned('/api/svc/download-url', { key }, this.#signal)
  }

  close(): void {
    this.#controlPlane.close()
  }
}

const TIMEOUT_MS = 300_000

/** @throws {AuditError} `read_failed`. */
export async function download(source: ObjectSource, key: string): Promise<Buffer> {
  const { url, headers } = await source.url(key)
  try {
    const response = await fetch(url, { headers, redirect: 'error', signal: AbortSignal.timeout(TIMEOUT_MS) })
    if (!response.ok) throw new Error(`the store answered ${response.status}`)
    return Buffer.from(await response.arrayBuffer())
  } catch (error) {
    throw new AuditError('read_failed', `${key} cannot be downloaded: ${messageOf(error)}`, error)
  }
}
