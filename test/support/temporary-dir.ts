// Folders of tests, which are removed with what is in them.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A folder to be declared with `using`. */
export class TemporaryDir implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'svc-test-'));

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true })
  }
}

/** A fresh folder for each test of the calling suite. */
export function temporaryDir(): { readonly path: string } {
  let dir: TemporaryDir
  beforeEach(() => {
    dir = new TemporaryDir()
  })
  afterEach(() => dir[Symbol.dispose]())
  return {
    get path() {
      return dir.path
    },
  }
}
