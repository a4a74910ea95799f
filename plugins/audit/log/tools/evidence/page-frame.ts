// The page of an evidence file: its data between two parts that are the same bytes for every file of a version, so that a
// reader's tool can see that nothing around the data was changed. Its script are the modules of the verifier for browsers.

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { sha256Hex } from '@svc/core/json'
import { AuditError } from '../../format/errors.js'
import { type Evidence, evidenceText, readEvidence } from '../../format/evidence-data.js'
import { lineText } from '../../format/stored-record.js'

interface PageFrame {
  /** Up to the data, which has no `<`. */
  readonly before: string
  readonly after: string
}

/** The end of the first part. */
const DATA_START = '<script type="application/json" id="evidence">'

let made: PageFrame | undefined

export function pageFrame(): PageFrame {
  made ??= frameOf(scriptText())
  return made
}

/** SHA-256 of both parts, one after the other, in hexadecimal. */
export function frameHash({ before, after }: PageFrame = pageFrame()): string {
  return sha256Hex(before + after)
}

function scriptText(): string {
  // From the package, as the command may be a bundle that has no modules.
  const verifier = createRequire(import.meta.url).resolve('@svc/plugin-audit/browser')
  const require = createRequire(verifier)
  const script = new PageScript(require)
  script.add(join(dirname(verifier), 'page/main.js'))
  const licence = readFileSync(join(dirname(require.resolve('@noble/hashes/sha2.js')), 'LICENSE'), 'utf8')
  return `/* With SHA-256 of @noble/hashes.\n\n${licence}*/\n${script.text}`
}

/** Modules in one script: each is a function of its own, after those that it imports. */
class PageScript {
  readonly #require: NodeJS.Require
  /** The names of the modules in the script, by their paths. */
  readonly #names = new Map<string, string>()
  text = ''

  constructor(require: NodeJS.Require) {
    this.#require = require
  }

  /** Adds the module at `path`, unless it is there. Returns its name. */
  add(path: string): string {
    const known = this.#names.get(path)
    if (known !== undefined) return known
    const nameOf = (specifier: string) =>
      this.add(specifier.startsWith('.') ? join(dirname(path), specifier) : this.#require.resolve(specifier))
    const exported: string[] = []
    const code = readFileSync(path, 'utf8')
      // What a library says of its functions would be two thirds of its part of the page.
      .replaceAll(/^ *\/\*\*[\s\S]*?\*\/\n/gm, '')
      .replaceAll(/^import (.*) from ['"](.*)['"];\n/gm, (_, names: string, from: string) => {
        return `const ${names.replace('* as ', '').replaceAll(' as ', ': ')} = ${nameOf(from)};\n`
      })
      .replaceAll(/^export \{([^}]*)\}(?: from ['"](.*)['"])?;\n/gm, (_, names: string, from?: string) => {
        const module = from === undefined ? '' : `${nameOf(from)}.`
        for (const name of names.match(/\w+/g) ?? []) exported.push(`${name}: ${module}${name}`)
        return ''
      })
      .replaceAll(/^export (?=(?:async )?(?:function\*?|const|class) (\w+))/gm, (_, name: string) => {
        exported.push(name)
        return ''
      })
      .replaceAll(/^\/\/# sourceMappingURL=.*\n?/gm, '')
    const name = `module${this.#names.size + 1}`
    this.#names.set(path, name)
    this.text += `const ${name} = (() => {\n${code}return { ${exported.join(', ')} };\n})();\n`
    return name
  }
}

function sourceHash(text: string): string {
  return `'sha256-${Buffer.from(sha256Hex(text), 'hex').toString('base64')}'`
}

function frameOf(script: string): PageFrame {
  const rules = [
    "default-src 'none'",
    `script-src ${sourceHash(script)}`,
    `style-src ${sourceHash(STYLE)}`,
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ]
  const before = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${rules.join('; ')}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>Evidence from an audit log</title>
<style>${STYLE}</style>
</head>
<body>
${BODY}
${DATA_START}`
  return { before, after: `</script>\n<script type="module">${script}</script>\n</body>\n</html>\n` }
}

const STYLE = `
:root { color-scheme: light dark; --line: #c9ccd1; --soft: #f3f4f6; --ok: #116329; --bad: #b3131b; --off: #57606a }
@media (prefers-color-scheme: dark) {
  :root { --line: #444c56; --soft: #1c2128; --ok: #57d364; --bad: #ff8b85; --off: #9da7b3 }
}
html { background: Canvas; color: CanvasText }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem } h3 { font-size: 1rem }
code, pre, textarea { font: 13px/1.45 ui-monospace, monospace; overflow-wrap: anywhere }
pre { white-space: pre-wrap; background: var(--soft); padding: .75rem; border-radius: 4px; max-height: 24rem; overflow: auto }
textarea { width: 100%; box-sizing: border-box; padding: .5rem }
button { font: inherit; padding: .35rem 1rem; margin: .5rem 0 }
table { border-collapse: collapse } td ul { margin: 0; padding-left: 1rem }
th { text-align: left; font-weight: 600; vertical-align: top; padding: .15rem 1.5rem .15rem 0; white-space: nowrap }
#verdict { border: 1px solid var(--line); border-left-width: 8px; padding: .75rem 1rem; font-weight: 600 }
#records { list-style: none; padding: 0 }
#records > li { border: 1px solid var(--line); border-left-width: 6px; margin: .4rem 0; padding: .4rem .8rem }
summary { cursor: pointer } .mark { display: inline-block; min-width: 7.5rem }
.ok { border-left-color: var(--ok) !important } .failed { border-left-color: var(--bad) !important }
.ok > details > summary > .mark, li.ok > b, #verdict.ok { color: var(--ok) }
.failed > details > summary > .mark, li.failed > b, #verdict.failed { color: var(--bad) }
.unchecked > details > summary > .mark, li.unchecked > b, #verdict.unchecked { color: var(--off) }
`

const BODY = `<main>
<h1>Evidence from an audit log</h1>
<p id="verdict" class="unchecked" role="status">Not checked. Enter the public key of the log.</p>
<noscript><p>The records are in this file, and are shown by its script. Without it, use the commands at the end.</p></noscript>
<form id="form">
<label for="keys">Public keys of the log, one a line (<code>ed25519:…</code>), and of witnesses that must have cosigned
(<code>name+id+key</code>)</label>
<textarea id="keys" rows="3" spellcheck="false" autocomplete="off"></textarea>
<button>Check</button>
</form>
<p>Checked by code from this file, on your computer; nothing is sent. Who could change the records could change this code
too, and make it say "proven": for a decision that matters, use one of the commands at the end.</p>
<details><summary>Which key, and why is it not in this file?</summary>
<p>Take the key from who runs the log, or from who audits it, by a way that does not pass through the sender of this file: a
page that they control, a contract, an earlier audit. A key in this file would prove nothing: who makes other records signs
them with a key of their own, and puts that key beside them.
The operator writes the keys, with the leaves that each may sign, by
<code>npx svc-sdk audit verify DIR --write-keys FILE</code>.</p></details>
<h2>Summary</h2>
<p id="counted">Of all records of this file, as they say; they are not checked.</p>
<table id="overview"></table>
<h2>What this file has</h2>
<table id="summary"></table>
<p>It is also checked that each record is of the selection and is here once. The numbers of what is not here, and who made
the file and when, are statements of its maker: no signature covers them.</p>
<h2>Records</h2>
<ol id="records"></ol>
<button id="more" type="button" hidden>Show more</button>
<h2>What it does not show</h2>
<ul>
<li>Whether these are all records of the selection. The maker may have left some out, and retention may have removed
days. Whether the log itself is complete, <code>npx svc-sdk audit verify</code> on the log says.</li>
<li>Calls that did not go through the gateway, and what a tool did with a call.</li>
<li>The content of arguments and responses: records have their SHA-256.</li>
<li>Whether the holder of the key rewrote the log before this checkpoint, unless a witness cosigned it or you kept an
earlier checkpoint.</li>
<li>Whether the log is the one you mean: compare its name above.</li>
</ul>
<h2>Check it without this page</h2>
<pre>npx svc-sdk audit check-bundle FILE.html --keys KEYS
python3 evidence.py FILE.html --keys KEYS</pre>
<p>The first is of svc-sdk, the second in <code>examples/verifier</code> of its sources shares no code with it. Both read the
data in this file without running the page, and compare the page with the one that svc-sdk writes. Each proof in the data is
a <code>c2sp.org/tlog-proof@v1</code>, which other tools for transparency logs read.</p>
</main>`

/** A maker may allow more than the default. */
const MAX_PAGE_BYTES = 256 * 2 ** 20

/** @throws {AuditError} `bad_config` if the filter is not well-formed Unicode */
export function evidencePage(evidence: Evidence): string {
  const { before, after } = pageFrame()
  const text = evidenceText(evidence)
  if (text === undefined) throw new AuditError('bad_config', 'the filter has half of a surrogate pair')
  return before + text + after
}

type ReadEvidence = { readonly evidence: Evidence } | { readonly reason: string }

/** The data of the page, if the rest of it is, byte for byte, the page that this version writes. */
export function evidenceIn(page: Uint8Array): ReadEvidence {
  if (page.length > MAX_PAGE_BYTES) return { reason: 'it is larger than any evidence file' }
  const text = lineText(page)
  if (text === undefined) return { reason: 'it is not UTF-8' }
  const start = text.indexOf(DATA_START) + DATA_START.length
  const end = text.indexOf('<', start)
  const frame = { before: text.slice(0, start), after: text.slice(end) }
  if (start < DATA_START.length || end < 0 || frameHash(frame) !== frameHash()) {
    return {
      reason:
        'around its data, the file is not the page that this version of svc-sdk writes: it may show other than its data',
    }
  }
  const evidence = readEvidence(text.slice(start, end))
  return 'reason' in evidence ? evidence : { evidence }
}
