// The script, the stylesheet and the icon of the pages, which the build puts in `dist/console/assets`. Script and icon are
// served under their hashes, so that browsers may keep them. The stylesheet is in each page, as browsers know hashes of
// inline styles alone.
//
// The script is served compressed. Pages and data are not: both have text of callers beside what is not for them, such as the
// token of the session, and the length of a compressed response says how much of one is in the other (BREACH).
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { BufferedResponse } from '../http/response.js'
import type { Asset } from './api.js'

// The path is the same from `dist/console` and from `dist/bundle`.
const folder = new URL('../console/assets/', import.meta.url)

/** By the name in headers, with the end of the file's name; the best first. */
const codings = [
  ['br', '.br'],
  ['gzip', '.gz'],
] as const

interface ReadAsset extends Asset {
  /** `accepted` is the header Accept-Encoding. */
  respond(accepted: string | undefined): BufferedResponse
}

export interface Assets {
  readonly script: ReadAsset
  readonly icon: ReadAsset
  /** Its text. */
  readonly style: string
}

/** The asset of a path; undefined if there is none. */
export function assetAt({ script, icon }: Assets, path: string): ReadAsset | undefined {
  return [script, icon].find((asset) => asset.path === path)
}

/** Throws if the build has not made them. */
export function readAssets(): Assets {
  const style = bytesOf('console.css').toString()
  if (style.includes('</')) throw new Error('console.css: it would end the element of the page')
  return {
    script: readAsset('console.js', 'text/javascript; charset=utf-8', codings),
    icon: readAsset('icon.svg', 'image/svg+xml', []),
    style,
  }
}

function readAsset(name: string, type: string, coded: readonly (typeof codings)[number][]): ReadAsset {
  const body = bytesOf(name)
  const headers = {
    'content-type': type,
    'cache-control': 'public, max-age=31536000, immutable',
    ...(coded.length === 0 ? {} : { vary: 'accept-encoding' }),
  }
  const bodies = coded.map(([coding, end]) => [coding, bytesOf(name + end)] as const)
  return {
    path: `/console/assets/${hashOf(body).toString('hex').slice(0, 16)}/${name}`,
    integrity: `sha256-${hashOf(body).toString('base64')}`,
    respond(accepted = '') {
      const [coding, compressed = body] = bodies.find(([one]) => isAccepted(one, accepted)) ?? []
      const encoding = coding === undefined ? {} : { 'content-encoding': coding }
      return { status: 200, headers: { ...headers, ...encoding }, body: compressed }
    },
  }
}

/** RFC 9110 §12.5.3: by its name, and with a weight above 0. */
function isAccepted(coding: string, header: string): boolean {
  return header.split(',').some((part) => {
    const [name = '', weight = 'q=1'] = part.split(';').map((one) => one.trim().toLowerCase())
    return name === coding && Number(weight.replace(/^q=/, '')) > 0
  })
}

function bytesOf(file: string): Buffer {
  return readFileSync(new URL(file, folder))
}

function hashOf(content: string | Buffer): Buffer {
  return createHash('sha256').update(content).digest()
}

/** The headers of every page, beside those of every response. */
export function pageHeaders({ script, style }: Assets): Readonly<Record<string, string>> {
  const policy = [
    "default-src 'none'",
    `script-src '${script.integrity}'`,
    `style-src 'sha256-${hashOf(style).toString('base64')}'`,
    "img-src 'self'",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ]
  return {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policy.join('; '),
    'cross-origin-opener-policy': 'same-origin',
    'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  }
}
