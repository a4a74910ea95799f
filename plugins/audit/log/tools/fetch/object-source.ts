// The source of the objects of an uploaded log.

import { setTimeout as after } from 'node:timers/promises'
import type { BoundedBody } from '@svc/core/http'
import { HttpClient } from '@svc/core/http-client'
import { messageOf } from '@svc/core/json'
import { AuditError } from '../../format/errors.js'
import { Backoff } from '../../upload/backoff.js'
import { ControlPlane } from '../../upload/control-plane.js'
import { UploadError } from '../../upload/error.js'
import type { PresignConfig } from '../../upload/presign.js'
import { ownerPrefix } from '../../upload/source.js'
import { type StoredObject, storedObjects } from '../../upload/stored-objects.js'

export interface ObjectSource {
  /** The start of the keys of all objects of the owner. */
  prefix(): Promise<string>
  /** The objects in the order of their keys. */
  list(prefix: string): AsyncIterable<Pick<StoredObject, 'key'>>
  /** A presigned URL. */
  url(
    key: string,
  ): Promise<{ readonly url: URL | string; readonly headers: Readonly<Record<string, string>> }>
}

/** The objects that a control plane lists of the owner of its key. */
export class ControlPlaneSource implements ObjectSource {
  readonly #controlPlane: ControlPlane
  readonly #signal = new AbortController().signal

  constructor(config: PresignConfig) {
    this.#controlPlane = new ControlPlane(config, 0)
  }

  async prefix(): Promise<string> {
    return ownerPrefix(await this.#controlPlane.metadata(this.#signal))
  }

  list(prefix: string): AsyncIterable<StoredObject> {
    return storedObjects(
      (...request) => retrying(() => this.#controlPlane.ask(...request), isFailure),
      { prefix },
      this.#signal,
    )
  }

  url(key: string) {
    const path = '/api/svc/download-url'
    return retrying(() => this.#controlPlane.presigned(path, { key }, this.#signal), isFailure)
  }

  close(): Promise<void> {
    return this.#controlPlane.close()
  }
}

const TIMEOUT_MS = 300_000
// Four times what a writer sends in one object.
const MAX_OBJECT_BYTES = 268_435_456

const client = new HttpClient({ keepAlive: true })

/** The object, cut if it is longer than `bytes`. @throws {AuditError} `read_failed`. */
export async function download(source: ObjectSource, key: string, bytes: number): Promise<BoundedBody> {
  const { url, headers } = await source.url(key)
  try {
    return await retrying(
      () => get(url, headers, Math.min(bytes, MAX_OBJECT_BYTES)),
      (error) => !(error instanceof RefusedDownload),
    )
  } catch (error) {
    throw new AuditError('read_failed', `${key} cannot be downloaded: ${messageOf(error)}`, error)
  }
}

/** A response that stays the same when the request is repeated. */
class RefusedDownload extends Error {}

async function get(
  url: URL | string,
  headers: Readonly<Record<string, string>>,
  maxBytes: number,
): Promise<BoundedBody> {
  const { status, ...body } = await client.send(url, { headers, timeoutMs: TIMEOUT_MS, maxBytes })
  if (status >= 200 && status < 300) return body
  const message = `the store responded with ${status}`
  throw status >= 500 || status === 408 || status === 429 ? new Error(message) : new RefusedDownload(message)
}

function isFailure(error: unknown): boolean {
  return error instanceof UploadError && error.retry === 'soon'
}

const ATTEMPTS = 6
const DELAYS = { min: 500, max: 10_000 }

/**
 * Repeats a request, because one that fails for a while must not end a restore of hours, which begins in an empty directory.
 * Rejects with the error of the last attempt, or with the first error that is not transient.
 */
async function retrying<T>(request: () => Promise<T>, isTransient: (error: unknown) => boolean): Promise<T> {
  const backoff = new Backoff(Math.random, DELAYS)
  for (let attempt = 1; ; attempt++) {
    try {
      return await request()
    } catch (error) {
      if (attempt === ATTEMPTS || !isTransient(error)) throw error
    }
    await after(backoff.next())
  }
}
