// Checks that an upload continues what the store has: the key of a client must not put bytes where its log had none.
import type { KeyOwner } from './key-file.js'
import type { Store } from './objects.js'
import { foldersOf, type UploadRequest } from './requests.js'

type Listing = Pick<Store, 'list'>

const OBJECT = /^(.+)-(\d{1,16})-(\d{1,16})-[0-9a-f]{16}\.ndjson$/
/** Digits at the end of a number within which an object of 5 GiB begins, at least. */
const MIN_DIGITS = 3
const MAX_DIGITS = 10
const MAX_PAGES = 10
/** Folders of days in which a client's journals began. */
const MAX_FOLDERS = 1_000

/** The reason why the store must not take the object; undefined if it may. */
export async function whyNotContinued(
  { key, mode }: Pick<UploadRequest, 'key' | 'mode'>,
  owner: KeyOwner,
  store: Listing,
): Promise<string | undefined> {
  const [, file = '', start = '0'] = OBJECT.exec(key) ?? []
  if (start !== '0') {
    const isThere = await hasObjectTo(file, Number(start), store)
    return isThere ? undefined : `key: no object of this file ends at ${start}`
  }
  if (mode !== 'journal') return undefined
  const folder = await otherFolder(file, `${foldersOf(owner).join('/')}/journal/`, store)
  return folder === undefined ? undefined : `key: the journal of this log is in the folder ${folder}`
}

/**
 * Looks for the object that ends at `end` among those that begin shortly before it, then further away: a file may have
 * millions of objects, and keys are in the order of their text.
 */
async function hasObjectTo(file: string, end: number, store: Listing): Promise<boolean> {
  const asked = new Set<string>()
  for (let digits = MIN_DIGITS; digits <= MAX_DIGITS; digits++) {
    const span = 10 ** digits
    for (const place of [end - 1, Math.max(0, end - span)].map((at) => Math.floor(at / span))) {
      const prefix = `${file}-${place === 0 ? '' : place}`
      if (asked.has(prefix)) continue
      asked.add(prefix)
      if (
        await isInListing(
          prefix,
          (key) => {
            const [, of, , to] = OBJECT.exec(key) ?? []
            return of === file && Number(to) === end
          },
          store,
        )
      )
        return true
    }
  }
  return false
}

async function isInListing(prefix: string, isIt: (key: string) => boolean, store: Listing): Promise<boolean> {
  let after: string | undefined
  for (let page = 0; page < MAX_PAGES; page++) {
    const { objects, next } = await store.list({ prefix, after })
    if (objects.some(({ key }) => isIt(key))) return true
    if (next === undefined) return false
    after = next
  }
  return false
}

/** The folder of another day below `parent` that has the beginning of the file. */
async function otherFolder(file: string, parent: string, store: Listing): Promise<string | undefined> {
  const [, own, name] = /\/([^/]+)\/([^/]+)$/.exec(file) ?? []
  let after: string | undefined
  for (let folders = 0; folders < MAX_FOLDERS; folders++) {
    const { objects } = await store.list({ prefix: parent, after })
    const day = objects[0]?.key.slice(parent.length).split('/')[0]
    if (day === undefined) return undefined
    if (day !== own && (await store.list({ prefix: `${parent}${day}/${name}-0-` })).objects.length > 0)
      return day
    // This key sorts after all keys of the folder.
    after = `${parent}${day}/~`
  }
  return 'of one of too many days'
}
