// Checks requests that read: a client may list and download its own objects only.
import { z } from 'zod'
import type { KeyOwner } from './key-file.js'
import { foldersOf, foreignField } from './upload-request.js'

const owner = {
  tenant: z.string(),
  env: z.string(),
  clientName: z.string(),
  clientVersion: z.string(),
}
const key = z.string().min(1).max(1_024)

const listRequestSchema = z.strictObject({
  ...owner,
  prefix: key,
  after: key.optional(),
  checksums: z.boolean().optional(),
})
const downloadRequestSchema = z.strictObject({ ...owner, key })

type ListRequest = z.output<typeof listRequestSchema>
type DownloadRequest = z.output<typeof downloadRequestSchema>

type JudgedRead<T> =
  | { readonly verdict: 'ok'; readonly request: T }
  | { readonly verdict: 'bad' | 'forbidden'; readonly why: string }

/** Judges the parsed body of `/api/svc/objects`. */
export function judgeListing(body: unknown, caller: KeyOwner): JudgedRead<ListRequest> {
  return judge(listRequestSchema, body, caller, 'prefix')
}

/** Judges the parsed body of `/api/svc/download-url`. */
export function judgeDownload(body: unknown, caller: KeyOwner): JudgedRead<DownloadRequest> {
  return judge(downloadRequestSchema, body, caller, 'key')
}

function judge<Field extends string, T extends KeyOwner & Readonly<Record<Field, string>>>(
  schema: z.ZodType<T>,
  body: unknown,
  caller: KeyOwner,
  field: Field,
): JudgedRead<T> {
  const parsed = schema.safeParse(body)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    return { verdict: 'bad', why: `${issue?.path.join('.') || 'body'}: ${issue?.message}` }
  }
  const request = parsed.data
  const foreign = foreignField(request, caller)
  if (foreign !== undefined) return { verdict: 'forbidden', why: foreign }
  const folder = `${foldersOf(caller).join('/')}/`
  const isOwn = request[field].startsWith(folder) && !/(^|\/)\.{0,2}(\/|$)/.test(request[field].slice(0, -1))
  return isOwn
    ? { verdict: 'ok', request }
    : { verdict: 'bad', why: `${field}: expected to begin with ${folder}` }
}
