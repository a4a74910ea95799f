// Tables of rows that keys go through: `j` and `k` move the focus from the link of a row to that of the next.
import type { ComponentChildren, JSX, RefObject } from 'preact'
import { useRef } from 'preact/hooks'
import { useKeys } from './keys.js'

export interface Column<Row> {
  readonly name: string
  readonly class?: string
  readonly cell: (row: Row) => ComponentChildren
}

interface TableProps<Row> {
  readonly class?: string
  /** What it is, for screen readers. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string
  readonly rowClass?: (row: Row) => string
  readonly bodyRef?: RefObject<HTMLTableSectionElement | null>
}

export function Table<Row>(props: TableProps<Row>): JSX.Element {
  const { caption, columns, rows, keyOf, rowClass, bodyRef } = props
  return (
    <table class={props.class}>
      <caption class="sr">{caption}</caption>
      <thead>
        <tr>
          {columns.map((column) => (
            <th key={column.name} scope="col" class={column.class}>
              {column.name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody ref={bodyRef ?? null}>
        {rows.map((row) => (
          <tr key={keyOf(row)} class={rowClass?.(row)}>
            {columns.map((column) => (
              <td key={column.name} class={column.class}>
                {column.cell(row)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** The links have the class `row`. The first step is from the one with `aria-current`. */
export function useRowKeys<Box extends HTMLElement>(): RefObject<Box | null> {
  const box = useRef<Box>(null)
  const step = (by: number) => {
    const links = [...(box.current?.querySelectorAll<HTMLElement>('a.row') ?? [])]
    const focused = document.activeElement instanceof HTMLElement ? links.indexOf(document.activeElement) : -1
    const at = focused < 0 ? links.findIndex((link) => link.ariaCurrent !== null) : focused
    const next = links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))]
    next?.focus()
  }
  useKeys({ j: () => step(1), k: () => step(-1) })
  return box
}
