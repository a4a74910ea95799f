// References of keys in a PKCS#11 token, as URIs of RFC 7512: `pkcs11:token=LABEL;object=LABEL?module-path=PATH&pin-source=…`.

import { resolve } from 'node:path'
import { SignerKeyError } from '@svc/plugin-audit/log'

const PKCS11 = 'pkcs11:'

export interface TokenKey {
  /** Absolute path of the vendor's library. */
  readonly module: string
  /** Label of the token. */
  readonly token: string
  /** Label of the key pair. */
  readonly object: string
  /** The place of the PIN. */
  readonly pin:
    | { readonly kind: 'env'; readonly name: string }
    | { readonly kind: 'file'; readonly path: string }
}

/** Paths are relative to `baseDir`. @throws {SignerKeyError} `bad_key_ref`; the message quotes no value, which may be a PIN. */
export function parsePkcs11Uri(uri: string, baseDir: string): TokenKey {
  if (!uri.startsWith(PKCS11)) throw badRef('the scheme is missing')
  const [path = '', query = ''] = uri.slice(PKCS11.length).split('?', 2)
  const { token, object } = attributesOf(path, ';', ['token', 'object'])
  const { 'module-path': module, 'pin-source': source } = attributesOf(query, '&', [
    'module-path',
    'pin-source',
  ])
  const pin = /^env:([A-Za-z_][A-Za-z0-9_]*)$/.exec(source)?.[1]
  const file = /^file:(?:\/\/)?(?=.)/.exec(source)?.[0]
  if (pin !== undefined)
    return { module: resolve(baseDir, module), token, object, pin: { kind: 'env', name: pin } }
  if (file === undefined) throw badRef('pin-source is env:NAME or file:PATH')
  const at = resolve(baseDir, source.slice(file.length))
  return { module: resolve(baseDir, module), token, object, pin: { kind: 'file', path: at } }
}

function attributesOf<Name extends string>(
  text: string,
  separator: string,
  names: readonly Name[],
): Record<Name, string> {
  const found = new Map<string, string>()
  for (const pair of text.split(separator).filter(Boolean)) {
    const equals = pair.indexOf('=')
    const name = pair.slice(0, Math.max(0, equals))
    if (name === 'pin-value') throw badRef('pin-value would show the PIN; use pin-source')
    if (!names.some((known) => known === name)) throw badRef(`each part is one of ${names.join(', ')}`)
    if (found.has(name)) throw badRef(`${name} is given twice`)
    found.set(name, decoded(pair.slice(equals + 1)))
  }
  const missing = names.find((name) => (found.get(name) ?? '') === '')
  if (missing !== undefined) throw badRef(`${missing} is missing`)
  // Each name is present.
  return Object.fromEntries(found) as Record<Name, string>
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch (cause) {
    if (cause instanceof URIError) throw badRef('a value is not percent-encoded')
    throw cause
  }
}

function badRef(what: string): SignerKeyError {
  const form = `${PKCS11}token=LABEL;object=LABEL?module-path=PATH&pin-source=env:NAME`
  return new SignerKeyError('bad_key_ref', `${what}; a key in a token has the form ${form}`)
}
