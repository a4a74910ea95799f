// The page of an evidence file: shows its records, and checks them with the keys that the reader enters. It sends nothing.

import { sha256 } from '@noble/hashes/sha2.js'
import { visibleInLine } from '@svc/core/json/portable'
import { type ReadProof, readProof } from '../../format/check-proof.js'
import type { CheckResult } from '../../format/check-result.js'
import { bytesOfDigest, hexOf, utf8Bytes } from '../../format/digest.js'
import {
  definitionIn,
  type Evidence,
  type JudgedProof,
  judgeEvidence,
  readEvidence,
} from '../../format/evidence-data.js'
import { type SummaryCounts, SummaryTally, summarySections } from '../../format/evidence-summary.js'
import { lineText } from '../../format/stored-record.js'
import { webChecker } from '../index.js'
import { readVerifierKeys, type VerifierKeys } from '../web-crypto.js'
import { element, memberOf, part, type RecordMembers, sentenceOf, untrusted } from './sentence.js'

const ROWS = 100
const WORDS = { ok: 'proven', failed: 'NOT PROVEN', unchecked: 'not checked' } as const
type State = keyof typeof WORDS

interface Row {
  readonly at: number
  readonly text: string
  /** Undefined if the text is not a proof. */
  readonly proof: ReadProof | undefined
  readonly item: HTMLElement
  readonly mark: HTMLElement
  readonly details: HTMLDetailsElement
}

const sha256Hex = (text: string) => hexOf(sha256(utf8Bytes(text)))

class EvidencePage {
  #evidence: Evidence
  #proofs: readonly (ReadProof | undefined)[]
  #rows: Row[] = []
  /** The results of the records, by their index. */
  #judged: JudgedProof[] = []
  /** Texts of definitions whose record is proven, by their hash. */
  #definitions = new Map<unknown, string>()
  #round = 0

  constructor(evidence: Evidence) {
    this.#evidence = evidence
    this.#proofs = evidence.records.map(readProof)
    this.#showSummary()
    this.#showClaimed()
    this.#showRows()
    part('more').addEventListener('click', () => this.#showRows())
    part('form').addEventListener('submit', (event) => {
      event.preventDefault()
      void this.#check((part('keys') as HTMLTextAreaElement).value)
    })
  }

  #showSummary(): void {
    const { records, filter, made_at, made_by, not_sealed, more } = this.#evidence
    const heads = new Map(
      this.#proofs.flatMap((proof) =>
        proof === undefined ? [] : [[proof.head.note.text, proof.head] as const],
      ),
    )
    const chosen = Object.entries(filter).map(([name, value]) =>
      element('li', {}, `${visibleInLine(name)} = `, untrusted(value)),
    )
    part('summary').append(
      row('records', String(records.length)),
      row('selected by', chosen.length === 0 ? 'nothing: every record' : element('ul', {}, ...chosen)),
      row('not in this file', `${more} beyond its limit, ${not_sealed} not sealed when it was made`),
      row('made', untrusted(made_at), ' by ', untrusted(made_by)),
    )
    for (const { origin, size, root, note } of heads.values()) {
      const witnesses = note.signatures.flatMap(({ name }) => (name === origin ? [] : [name]))
      part('summary').append(
        row('log', untrusted(origin)),
        row('its checkpoint', `${size} leaves, root `, element('code', {}, hexOf(bytesOfDigest(root)))),
        row(
          'cosigned by',
          ...(witnesses.length === 0 ? ['nobody'] : witnesses.flatMap((name) => [untrusted(name), ' '])),
        ),
      )
    }
  }

  #showClaimed(): void {
    const claimed = this.#proofs.flatMap((proof) => (proof?.fields === undefined ? [] : [proof.fields]))
    part('counted').textContent = 'Of all records of this file, as they say; they are not checked.'
    this.#showOverview(claimed.map((record) => ({ record, witnesses: [] })))
  }

  /** The summary of these records alone. */
  #showOverview(
    records: readonly { readonly record: RecordMembers; readonly witnesses: readonly string[] }[],
  ): void {
    const tally = new SummaryTally()
    for (const { record, witnesses } of records) tally.add(record, witnesses)
    const summary = tally.summary()
    const period = [untrusted(summary.from ?? 'none'), ' to ', untrusted(summary.to ?? 'none')]
    part('overview').replaceChildren(
      row('period', ...period),
      ...summarySections.map((section) => row(section, ...countsOf(summary[section]))),
    )
  }

  #showRows(): void {
    const { records } = this.#evidence
    const first = this.#rows.length
    for (const [index, text] of records.slice(first, first + ROWS).entries()) {
      const at = first + index
      const proof = this.#proofs[at]
      const mark = element('b', { class: 'mark' }, WORDS.unchecked)
      const summary = element('summary', {}, mark, ' ', ...sentenceOf(proof?.fields))
      const details = element('details', {}, summary)
      const item = element('li', { class: 'unchecked' }, details)
      const row = { at, text, proof, item, mark, details }
      details.addEventListener('toggle', () => this.#fill(row))
      this.#rows.push(row)
      this.#mark(row)
      part('records').append(item)
    }
    const left = records.length - this.#rows.length
    part('more').hidden = left === 0
    part('more').textContent = `Show more (${left} left)`
  }

  async #check(text: string): Promise<void> {
    const round = ++this.#round
    const keys = readVerifierKeys(text)
    this.#judged = []
    this.#definitions.clear()
    this.#markAll()
    this.#showClaimed()
    if (keys.wrongLines.length > 0) {
      return this.#say('unchecked', `Not checked: line ${keys.wrongLines.join(', ')} is not a public key.`)
    }
    if (keys.logs.length === 0) return this.#say('unchecked', 'Not checked: enter a public key of the log.')
    const { records, definitions } = this.#evidence
    const judged: JudgedProof[] = []
    for await (const one of judgeEvidence(this.#evidence, webChecker(keys), sha256Hex)) {
      // The reader has entered other keys in the meantime.
      if (round !== this.#round) return
      if (judged.length % ROWS === 0)
        this.#say('unchecked', `Checking: ${judged.length} of ${records.length + definitions.length}`)
      judged.push(one)
      const definition = definitionIn(one.proof?.fields)
      if (one.list === 'definitions' && one.state === 'ok' && definition !== undefined)
        this.#definitions.set(definition.sha256, definition.text)
    }
    this.#judged = judged.slice(0, records.length)
    this.#markAll()
    this.#showProven()
    this.#conclude(judged, keys)
  }

  #showProven(): void {
    const proven = this.#judged.flatMap(({ state, proof, checked }) => {
      if (state !== 'ok' || proof?.fields === undefined) return []
      const confirmed = checked?.cosignatures.filter(({ result }) => result.state === 'ok') ?? []
      return [{ record: proof.fields, witnesses: confirmed.map(({ witness }) => witness) }]
    })
    part('counted').textContent =
      `Of the ${proven.length} records that are proven, out of ${this.#judged.length} in this file.`
    this.#showOverview(proven)
  }

  #conclude(all: readonly JudgedProof[], keys: VerifierKeys): void {
    const count = (wanted: State) => all.filter(({ state }) => state === wanted).length
    const { length } = this.#evidence.records
    const by = keys.logs.map(({ keyId }) => keyId).join(', ')
    if (count('failed') > 0)
      this.#say('failed', `${count('failed')} of ${all.length} records are NOT PROVEN.`)
    else if (count('ok') < all.length)
      this.#say(
        'unchecked',
        `${count('unchecked')} of ${all.length} records could not be checked; each says why.`,
      )
    else this.#say('ok', `All ${length} records are proven: signed and sealed by ${by}.`)
  }

  #say(state: State, text: string): void {
    const verdict = part('verdict')
    verdict.className = state
    verdict.textContent = text
  }

  #markAll(): void {
    for (const row of this.#rows) this.#mark(row)
  }

  #mark(row: Row): void {
    const state = this.#judged[row.at]?.state ?? 'unchecked'
    row.item.className = state
    row.mark.textContent = WORDS[state]
    this.#fill(row)
  }

  /** The checks and the record itself, if the reader opened the row. */
  #fill({ at, text, proof, details }: Row): void {
    for (const old of [...details.children].slice(1)) old.remove()
    if (!details.open) return
    if (proof === undefined) {
      details.append(
        element('p', {}, 'This is not a proof of a record.'),
        element('pre', { tabindex: '0' }, visibleInLine(text)),
      )
      return
    }
    const list = element('ul', {})
    for (const [name, result] of checksOf(this.#judged[at])) list.append(checkItem(name, result))
    details.append(list, ...this.#named(proof.fields))
    details.append(element('h3', {}, 'The record as the log has it'))
    details.append(element('pre', { tabindex: '0' }, visibleInLine(lineText(proof.record) ?? 'not UTF-8')))
  }

  #named(record: unknown): Node[] {
    const [definition, policy] = [memberOf(record, 'definition_sha256'), memberOf(record, 'policy_sha256')]
    const nodes: Node[] = []
    if (typeof policy === 'string')
      nodes.push(element('p', {}, 'Judged by the policy ', untrusted(policy), '.'))
    if (typeof definition !== 'string') return nodes
    const text = this.#definitions.get(definition)
    const where = text === undefined ? ', which is not in this file, or not proven yet.' : ':'
    nodes.push(element('p', {}, 'The caller was last served the definition ', untrusted(definition), where))
    if (text !== undefined) nodes.push(element('pre', { tabindex: '0' }, visibleInLine(text)))
    return nodes
  }
}

function row(name: string, ...value: (Node | string)[]): HTMLElement {
  return element('tr', {}, element('th', { scope: 'row' }, name), element('td', {}, ...value))
}

function countsOf(counts: SummaryCounts): (Node | string)[] {
  if (counts.length === 0) return ['none']
  const items = counts
    .slice(0, ROWS)
    .map(([name, count]) => element('li', {}, `${count.toLocaleString('en')} × `, untrusted(name)))
  const more = counts.length > ROWS ? [element('li', {}, `and ${counts.length - ROWS} more`)] : []
  return [element('ul', {}, ...items, ...more)]
}

function checksOf({ checked, place }: Partial<JudgedProof> = {}): [string, CheckResult][] {
  if (checked === undefined || place === undefined)
    return [['Record', { state: 'unchecked', reason: 'no key was entered' }]]
  return [
    ['Signature', checked.signature],
    ['Place in the log', checked.inclusion],
    ['Checkpoint', checked.checkpoint],
    ...(checked.vote === undefined ? [] : [['Vote', checked.vote] as [string, CheckResult]]),
    ['In this file', place],
    ...checked.cosignatures.map(({ witness, result }): [string, CheckResult] => [
      `Witness ${visibleInLine(witness)}`,
      result,
    ]),
  ]
}

function checkItem(name: string, result: CheckResult): HTMLElement {
  const text = result.state === 'ok' ? result.detail : result.reason
  const words = { ok: 'correct', failed: 'WRONG', unchecked: 'not checked' }
  const item = element(
    'li',
    { class: result.state },
    element('b', {}, `${name}: ${words[result.state]}`),
    ` — ${text}`,
  )
  if (result.state !== 'failed') return item
  for (const side of ['expected', 'found'] as const) {
    if (result[side] !== undefined) item.append(element('div', {}, `${side}: `, untrusted(result[side])))
  }
  return item
}

try {
  const evidence = readEvidence(part('evidence').textContent ?? '')
  if ('reason' in evidence) throw new Error(evidence.reason)
  new EvidencePage(evidence)
} catch (error) {
  part('verdict').className = 'failed'
  part('verdict').textContent =
    `This file cannot be read: ${error instanceof Error ? error.message : 'an error'}`
}
