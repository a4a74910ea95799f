// Tables; the keys `j` and `k` go from the link of a row to that of the next.
import type { ComponentChildren, JSX } from 'preact'

export interface Column<Row> {
  readonly name: string
  readonly class?: string
  readonly cell: (row: Row) => ComponentChildren
}

interface TableProps<Row> {
  readonly class?: string
  /** The name of the table, for screen readers. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string
  readonly rowClass?: (row: Row) => string
}

/** In the order of the times that are shown; a log has a call where it ended. */
export function newestFirst<Row>(rows: readonly Row[], at: (row: Row) => string): readonly Row[] {
  return rows.toSorted((one, other) => Number(at(one) < at(other)) - Number(at(one) > at(other)))
}

export function Table<Row>(props: TableProps<Row>): JSX.Element {
  const { caption, columns, rows, keyOf, rowClass } = props
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
      <tbody>
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
