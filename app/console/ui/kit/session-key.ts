// The key of the session: made at the sign-in, kept in this browser, and never to be exported. It signs each change.
const DATABASE = 'svc-console'
const STORE = 'keys'
const NAME = 'session'

interface PublicKey {
  readonly kty: 'EC'
  readonly crv: 'P-256'
  readonly x: string
  readonly y: string
}

/** A new key in place of the last one; resolves to its public part. */
export async function createSessionKey(): Promise<PublicKey> {
  const pair = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, [
    'sign',
    'verify',
  ])
  const { x = '', y = '' } = await crypto.subtle.exportKey('jwk', pair.publicKey)
  await inStore('readwrite', (store) => store.put(pair.privateKey, NAME))
  return { kty: 'EC', crv: 'P-256', x, y }
}

/** The header that proves that a request comes from here. `at`: milliseconds, by the clock of the gateway. */
export async function proofOf(method: string, path: string, body: string, at: number): Promise<string> {
  const key: unknown = await inStore('readonly', (store) => store.get(NAME))
  if (!(key instanceof CryptoKey)) return ''
  const digest = await crypto.subtle.digest('SHA-256', bytesOf(body))
  const nonce = base64url(crypto.getRandomValues(new Uint8Array(18)))
  const claims = { method, path, body_sha256: base64url(new Uint8Array(digest)), at: Math.round(at), nonce }
  const payload = base64url(bytesOf(JSON.stringify(claims)))
  const signature = await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, key, bytesOf(payload))
  return `${payload}.${base64url(new Uint8Array(signature))}`
}

function inStore<T>(mode: IDBTransactionMode, use: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(DATABASE, 1)
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE)
    opening.onerror = () => reject(opening.error)
    opening.onsuccess = () => {
      const database = opening.result
      const request = use(database.transaction(STORE, mode).objectStore(STORE))
      request.onsuccess = () => {
        database.close()
        resolve(request.result)
      }
      request.onerror = () => reject(request.error)
    }
  })
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text)
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')
}
