// A fresh folder for each test of the calling suite, removed afterwards.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export function temporaryDir(): { readonly path: string } {
  const dir = { path: '' }
  beforeEach(() => {
    dir.path = mkdtempSync(join(tmpdir(), 'svc-audit-'))
  })
  afterEach(() => {
    rmSync(dir.path, { recursive: true, force: true })
  })
  return dir
}
