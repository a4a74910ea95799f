// Runs the verifier of examples/verifier on many logs in one process.

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export interface PythonJob {
  readonly folder: string
  readonly keys: string
  readonly against: string | undefined
  readonly origin: string | undefined
  readonly allow_unsealed: boolean
  readonly fast?: boolean
  readonly strict?: boolean
  readonly agents?: boolean
  /** Path of a file. */
  readonly witness_keys?: string
  readonly quorum?: number
  /** Path of a file. */
  readonly passkeys?: string
}

export interface PythonVerdict {
  readonly verdict: string
  readonly reason: string | null
  /** Null if the passkeys were not given. */
  readonly unjudged_votes: number | null
  readonly failures: readonly { readonly file: string; readonly line: number; readonly kind: string }[]
}

const folder = fileURLToPath(new URL('../../../../../../../../examples/verifier', import.meta.url))

const DRIVER = `
import argparse, json, sys
sys.path.insert(0, ${JSON.stringify(folder)})
import verify
jobs = json.load(sys.stdin)
defaults = {"against": None, "origin": None, "fast": False, "strict": False, "agents": False, "witness_keys": None, "quorum": None, "passkeys": None}
json.dump([verify.verify(job["folder"], argparse.Namespace(**{**defaults, **job})) for job in jobs], sys.stdout)
`

export function verifyInPython(jobs: readonly PythonJob[]): PythonVerdict[] {
  const { stdout, stderr, status } = spawnSync('python3', ['-B', '-c', DRIVER], {
    input: JSON.stringify(jobs),
    encoding: 'utf8',
    maxBuffer: 1e8,
    timeout: 120_000,
  })
  if (status !== 0) throw new Error(`python3: ${stderr}`)
  return JSON.parse(stdout)
}
