// A Lua script. Each operation is one script, so that it is atomic.
import { createHash } from 'node:crypto'

export interface Script {
  readonly text: string
  /** SHA-1 of the text in hex, for EVALSHA. */
  readonly sha: string
}

export function script(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') }
}
