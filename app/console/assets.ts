// The script, the stylesheet and the icon of the pages, which the build puts in `dist/console/assets`. Each is served under
// its hash, so that browsers may keep it.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { BufferedResponse } from '../http/response.js'
import type { Asset } from './api.js'

// The same from `dist/console` and from `dist/bundle`.
const folder = new URL('../console/assets/', import.meta.url)

const files = {
  script: { name: 'console.js', type: 'text/javascript; charset=utf-8' },
  style: { name: 'console.css', type: 'text/css; charset=utf-8' },
  icon: { name: 'icon.svg', type: 'image/svg+xml' },
} as const

type AssetName = keyof typeof files

interface ReadAsset extends Asset {
  /** For the policy of the page. */
  readonly source: string
  readonly response: BufferedResponse
}

export type Assets = Readonly<Record<AssetName, ReadAsset>>

/** Throws if the build has not made them. */
export function readAssets(): Assets {
  const read = (name: AssetName): ReadAsset => {
    const { name: file, type } = files[name]
    const body = readFileSync(new URL(file, folder))
    const digest = createHash('sha256').update(body).digest()
    const integrity = `sha256-${digest.toString('base64')}`
    const headers = { 'content-type': type, 'cache-control': 'public, max-age=31536000, immutable' }
    return {
      path: `/console/assets/${digest.toString('hex').slice(0, 16)}/${file}`,
      integrity,
      source: `'${integrity}'`,
      response: { status: 200, headers, body },
    }
  }
  return { script: read('script'), style: read('style'), icon: read('icon') }
}

/** The headers of every page, beside those of every response. */
export function pageHeaders({ script }: Assets): Readonly<Record<string, string>> {
  const policy = [
    "default-src 'none'",
    `script-src ${script.source}`,
    // Browsers know hashes of inline styles alone.
    "style-src 'self'",
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
