// Presigned URLs for any S3-compatible store (AWS Signature Version 4), and its listing. The signature of a PUT covers
// its key, type, length and checksum, and the condition that the object does not exist yet.

import {
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import { defined } from '@svc/core/json'

export interface LogStoreOptions {
  readonly bucket: string
  /** Prefix of every key, for example `audit/`; empty by default. */
  readonly prefix?: string
  /** Lifetime of a URL, seconds. */
  readonly expiresSec: number
  /** The endpoint of a store other than AWS. Default: `AWS_ENDPOINT_URL_S3`, then `AWS_ENDPOINT_URL`. */
  readonly endpoint?: string
  /** The region. Default: `AWS_REGION` of the environment, then the profile. */
  readonly region?: string
}

interface ObjectToPut {
  readonly key: string
  readonly contentType: string
  /** The length in bytes. */
  readonly contentLength: number
  /** SHA-256 of the bytes, base64: the store refuses others. */
  readonly checksumSha256?: string | undefined
}

interface ListQuery {
  readonly prefix: string
  /** The last key of the page before. */
  readonly after?: string | undefined
  /** Asks the store for the checksum of each object. */
  readonly checksums?: boolean | undefined
}

type ListedObject = Pick<ObjectToPut, 'key' | 'contentLength' | 'checksumSha256'>

/** The response of `/api/svc/objects`. */
interface ObjectPage {
  readonly objects: readonly ListedObject[]
  /** `after` of the next page. */
  readonly next?: string
}

const PAGE_OBJECTS = 1_000
// Each checksum needs a request to the store.
const PAGE_CHECKSUMS = 50

/** The data by which a client puts or gets one object: the response of `/api/svc/upload-url` and `/api/svc/download-url`. */
interface Presigned {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

export class Store {
  readonly #options: LogStoreOptions
  readonly #client: S3Client

  /** The AWS SDK takes the credentials from the environment. */
  constructor(options: LogStoreOptions, env: Readonly<Record<string, string | undefined>>) {
    const { endpoint = env['AWS_ENDPOINT_URL_S3'] ?? env['AWS_ENDPOINT_URL'], region } = options
    this.#options = options
    this.#client = new S3Client({
      // A bucket as host name needs DNS entries that self-hosted stores seldom have; most of them ignore the region.
      ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true }),
      ...regionOf(region ?? env['AWS_REGION'], endpoint),
      // No body is here, so no checksum can be computed.
      requestChecksumCalculation: 'WHEN_REQUIRED',
    })
  }

  async presign({ key, contentType, contentLength, checksumSha256 }: ObjectToPut): Promise<Presigned> {
    const { bucket, prefix = '', expiresSec } = this.#options
    const command = new PutObjectCommand({
      Bucket: bucket,
      Key: prefix + key,
      ContentType: contentType,
      ContentLength: contentLength,
      // RFC 9110 §13.1.2: only if the object does not exist, so that no upload overwrites another.
      IfNoneMatch: '*',
      ...defined({ ChecksumSHA256: checksumSha256 }),
    })
    const checksumHeader = 'x-amz-checksum-sha256'
    const url = await getSignedUrl(this.#client, command, {
      expiresIn: expiresSec,
      signableHeaders: new Set(['host', 'content-type', 'content-length', 'if-none-match', checksumHeader]),
      unhoistableHeaders: new Set(['if-none-match', checksumHeader]),
    })
    const checksum = checksumSha256 === undefined ? {} : { [checksumHeader]: checksumSha256 }
    return { url, headers: { 'Content-Type': contentType, 'If-None-Match': '*', ...checksum } }
  }

  async presignDownload(key: string): Promise<Presigned> {
    const { bucket, prefix = '', expiresSec } = this.#options
    const command = new GetObjectCommand({ Bucket: bucket, Key: prefix + key })
    return { url: await getSignedUrl(this.#client, command, { expiresIn: expiresSec }), headers: {} }
  }

  async list({ prefix: wanted, after, checksums = false }: ListQuery): Promise<ObjectPage> {
    const { bucket, prefix = '' } = this.#options
    const listed = await this.#client.send(
      new ListObjectsV2Command({
        Bucket: bucket,
        Prefix: prefix + wanted,
        MaxKeys: checksums ? PAGE_CHECKSUMS : PAGE_OBJECTS,
        ...(after === undefined ? {} : { StartAfter: prefix + after }),
      }),
    )
    const objects = (listed.Contents ?? []).flatMap(({ Key, Size }) =>
      Key === undefined || Size === undefined ? [] : [{ key: Key.slice(prefix.length), contentLength: Size }],
    )
    const last = objects.at(-1)?.key
    return {
      objects: checksums ? await Promise.all(objects.map((object) => this.#withChecksum(object))) : objects,
      ...(listed.IsTruncated && last !== undefined ? { next: last } : {}),
    }
  }

  async #withChecksum(object: ListedObject): Promise<ListedObject> {
    const { bucket, prefix = '' } = this.#options
    const head = await this.#client.send(
      new HeadObjectCommand({ Bucket: bucket, Key: prefix + object.key, ChecksumMode: 'ENABLED' }),
    )
    const { ChecksumSHA256: checksumSha256 } = head
    // A multipart upload has a checksum of checksums, which is not one of the bytes.
    if (checksumSha256 === undefined || checksumSha256.includes('-')) return object
    return { ...object, checksumSha256 }
  }

  close(): void {
    this.#client.destroy()
  }
}

function regionOf(region: string | undefined, endpoint: string | undefined): { region?: string } {
  if (region !== undefined) return { region }
  return endpoint === undefined ? {} : { region: 'us-east-1' }
}
